"""Trials become child runs of one parent run; a second run of equal settings finds them there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient
from stores import new_store

from dynamask_mlflow.experiments import tracking
from dynamask_mlflow.experiments.protocol import run_experiment
from dynamask_mlflow.experiments.registry import rare_experiment
from dynamask_mlflow.experiments.results_runs import read_sections
from dynamask_mlflow.experiments.tracking import METHOD_TAG, MLFLOW_EXPERIMENT, MlflowStore
from dynamask_mlflow.masks.result import Masks


def whole(model: Any, x: np.ndarray, **options: Any) -> Masks:
    ones = np.ones(x.shape, dtype=np.float32)
    n = len(x)
    return Masks(masks=ones, scores=ones, areas=np.ones(1), errors=np.zeros((n, 1)), area=np.ones(n))


@pytest.fixture
def client(tmp_path: Path) -> MlflowClient:
    uri = new_store(tmp_path)
    made = MlflowClient(tracking_uri=uri, registry_uri=uri)
    made.create_experiment(MLFLOW_EXPERIMENT, artifact_location=(tmp_path / "artifacts").as_uri())
    return made


def test_a_run_that_was_cut_short_goes_on_where_it_stopped(client: MlflowClient) -> None:
    experiment = rare_experiment("feature")
    settings = {"instances": 1, "quick": True}
    first = MlflowStore(experiment, settings, client=client)
    run_experiment(replace(experiment, explain=whole), methods=["a"], seeds=[0], store=first)

    calls: list[tuple[int, str]] = []

    def counted(model: Any, x: np.ndarray, **options: Any) -> Masks:
        calls.append((options["seed"], options["method"]))
        return whole(model, x, **options)

    second = MlflowStore(experiment, settings, client=client)
    assert second.parent == first.parent
    result = run_experiment(replace(experiment, explain=counted), methods=["a", "b"], seeds=[0, 1], store=second)
    second.finish(result)
    assert calls == [(0, "b"), (1, "a"), (1, "b")]

    home = client.get_experiment_by_name(MLFLOW_EXPERIMENT)
    children = client.search_runs([home.experiment_id], f"tags.mlflow.parentRunId = '{first.parent}'")
    assert sorted(run.data.tags[METHOD_TAG] for run in children) == ["a", "a", "b", "b"]
    assert {run.info.status for run in children} == {"FINISHED"}
    assert all(run.data.metrics["aur"] == 1 for run in children)
    parent = client.get_run(first.parent)
    assert parent.info.status == "FINISHED"
    assert parent.data.metrics["a/aup"] == pytest.approx(0.05)
    assert {item.path for item in client.list_artifacts(first.parent)} == {"result.json", "table.md"}

    assert MlflowStore(experiment, {"instances": 2, "quick": True}, client=client).parent != first.parent
    assert MlflowStore(experiment, settings, client=client, fresh=True).parent != first.parent


def test_a_trial_of_other_code_is_repeated_and_never_mixed_with_the_new_one(
    client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = rare_experiment("feature")
    settings = {"instances": 1, "quick": False}
    calls: list[int] = []

    def counted(model: Any, x: np.ndarray, **options: Any) -> Masks:
        calls.append(options["seed"])
        return whole(model, x, **options)

    for code, seeds in (("old", [0, 1, 2]), ("new", [0, 1]), ("new", [0, 1])):
        monkeypatch.setattr(tracking, "code_digest", lambda experiment, method, code=code: f"{code} {method}")
        store = MlflowStore(experiment, settings, client=client)
        run_experiment(replace(experiment, explain=counted), methods=["a"], seeds=seeds, store=store)
    assert calls == [0, 1, 2, 0, 1]
    (section,) = read_sections(client)
    assert [entry.seeds for entry in section.entries] == [(0, 1)]
