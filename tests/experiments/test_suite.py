"""The whole set runs every method of every experiment, goes on after a failure, and goes on where it stopped."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from stores import new_store

from dynamask_mlflow._method_table import SALIENCY_METHODS
from dynamask_mlflow.cli.experiment import experiment as experiment_command
from dynamask_mlflow.experiments.plan import NAMES, PLAN, PlannedRun, baselines, open_experiments, planned_runs
from dynamask_mlflow.experiments.results_page import results_page
from dynamask_mlflow.experiments.results_runs import read_sections
from dynamask_mlflow.experiments.suite import run_planned
from dynamask_mlflow.experiments.tracking import MLFLOW_EXPERIMENT
from dynamask_mlflow.masks.registry import method_names
from dynamask_mlflow.masks.result import Masks

PAPER = {"fo", "afo", "fp", "ig", "gs", "svs", "lime", "dl", "retain", "fit"}


def truth(model: Any, x: np.ndarray, *, method: str, **options: Any) -> Masks:
    if method == "fit":
        raise ValueError("Expected classes.")
    cells = np.broadcast_to(model.salient.numpy(), x.shape).astype(np.float32)
    n = len(x)
    return Masks(masks=cells, scores=cells, areas=np.ones(1), errors=np.zeros((n, 1)), area=np.full(n, 0.05))


@pytest.fixture
def client(tmp_path: Path) -> MlflowClient:
    made = MlflowClient(tracking_uri=new_store(tmp_path))
    made.create_experiment(MLFLOW_EXPERIMENT, artifact_location=(tmp_path / "artifacts").as_uri())
    return made


def test_the_plan_holds_every_method_of_the_paper_and_only_known_ones() -> None:
    experiments = open_experiments(None)
    assert set(NAMES) == set(experiments)
    planned: dict[str, set[str]] = {}
    sizes: list[tuple[str, int | None, str]] = []
    for planned_run in PLAN:
        known = {*method_names(), *experiments[planned_run.experiment].presets}
        assert set(planned_run.methods) <= known
        planned.setdefault(planned_run.experiment, set()).update(planned_run.methods)
        sizes += [(planned_run.experiment, planned_run.instances, method) for method in planned_run.methods]
    assert len(set(sizes)) == len(sizes)
    for name in ("state", "mimic"):
        assert {*PAPER, "nested", "paper", "released", "extrmask", "random"} <= planned[name]
    for name in ("rare-feature", "rare-time"):
        assert {"nested", "paper", "released", "fo", "fp", "ig", "svs"} <= planned[name]
    assert planned["mimic"] >= {"nested-deletion", *SALIENCY_METHODS}
    assert not [name for name in baselines() if name.startswith("nested")]


def test_a_part_of_the_plan() -> None:
    (one,) = planned_runs(["perturbation"], ["paper"])
    assert one == PlannedRun("perturbation", ("paper",), 1, 4)
    assert {(e.seeds, e.instances) for e in planned_runs(quick=True)} == {(None, None)}


def test_a_failure_does_not_end_the_set_and_finished_trials_are_not_repeated(client: MlflowClient) -> None:
    experiments = {name: replace(e, explain=truth) for name, e in open_experiments(None).items() if "rare" in name}
    plan = [
        PlannedRun("rare-feature", ("fit", "ig"), 2),
        PlannedRun("rare-feature", ("fo",), 1),
        PlannedRun("rare-time", ("ig",)),
    ]
    lines: list[str] = []
    failures = run_planned(plan, experiments, quick=True, report=lines.append, client=client)
    assert [(f.experiment, f.method, f.reason) for f in failures] == [
        ("rare-feature", "fit", "ValueError: Expected classes.")
    ]
    assert len([line for line in lines if "s an instance" in line]) == 2 + 1 + 2
    feature, time = read_sections(client, quick=True)
    assert {entry.method: entry.seeds for entry in feature.entries} == {"ig": (0, 1), "fo": (0,)}
    assert time.entries[0].command == "dynamask-mlflow experiment rare-time --quick"
    assert "| fo | 1.000 | 1.000 |" in results_page([feature, time])

    lines.clear()
    run_planned(plan, experiments, quick=True, report=lines.append, client=client)
    assert lines == ["rare-feature, fit: failed, ValueError: Expected classes."]


def test_the_command_says_what_it_would_run_and_what_it_does_not_know() -> None:
    said = CliRunner().invoke(experiment_command, ["all", "--only", "state", "--methods", "ours", "--dry-run"])
    assert said.output == "state, 3 seeds x 10 sequences: nested, nested-25, nested-20, nested-15\n"
    wrong = CliRunner().invoke(experiment_command, ["all", "--only", "states"])
    assert wrong.exit_code == 3
    assert "Expected names out of rare-feature" in wrong.output
