"""The results page holds what was logged and nothing else, and says where we lose."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from stores import new_store

from dynamask_mlflow.cli.experiment import experiment as experiment_command
from dynamask_mlflow.experiments.protocol import run_experiment
from dynamask_mlflow.experiments.registry import rare_experiment
from dynamask_mlflow.experiments.results_page import results_page
from dynamask_mlflow.experiments.results_runs import read_sections
from dynamask_mlflow.experiments.tracking import MLFLOW_EXPERIMENT, MlflowStore
from dynamask_mlflow.masks.result import Masks

COMMAND = "dynamask-mlflow experiment rare-feature --instances 1"


def fake(model: Any, x: np.ndarray, *, method: str, **options: Any) -> Masks:
    """ "ig" is the truth, "nested" half of it, anything else nothing."""
    truth = np.broadcast_to(model.salient.numpy(), x.shape).astype(np.float32)
    mask = {"ig": truth, "nested": truth / 2}.get(method, np.zeros_like(truth))
    n = len(x)
    return Masks(masks=mask, scores=mask, areas=np.ones(1), errors=np.zeros((n, 1)), area=np.full(n, 0.05))


def log(uri: str, methods: list[str], seeds: list[int], *, quick: bool = False, instances: int = 1) -> None:
    experiment = rare_experiment("feature")
    client = MlflowClient(tracking_uri=uri)
    store = MlflowStore(experiment, {"instances": instances, "quick": quick}, command=COMMAND, client=client)
    result = run_experiment(
        replace(experiment, explain=fake), methods=methods, seeds=seeds, instances=instances, store=store
    )
    store.finish(result)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("store")
    address = new_store(folder)
    client = MlflowClient(tracking_uri=address)
    client.create_experiment(MLFLOW_EXPERIMENT, artifact_location=(folder / "artifacts").as_uri())
    log(address, ["nested", "ig"], [0, 1])
    log(address, ["fo"], [1])
    log(address, ["lime"], [0], quick=True)
    return address


def test_every_logged_method_has_a_row_and_the_command_that_made_it(uri: str) -> None:
    (section,) = read_sections(MlflowClient(tracking_uri=uri))
    assert {entry.method: entry.seeds for entry in section.entries} == {"nested": (0, 1), "ig": (0, 1), "fo": (1,)}
    page = results_page([section])
    rows = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| ")}
    assert "| 1.000 ± 0.000 | 0.500 ± 0.000 |" in rows["**nested** (ours)"]
    assert "0.58 ± 0.03" in rows["[paper] Dynamask"]
    assert f"{COMMAND} --seeds 2 --methods nested,ig --log" in page
    assert f"{COMMAND} --seeds 1, --methods fo --log" in page
    assert "1 thread" in page
    assert "Not run for this table: paper, released, extrmask, afo, fp" in page


def test_the_page_says_where_we_lose(uri: str) -> None:
    page = results_page(read_sections(MlflowClient(tracking_uri=uri)))
    (verdict,) = [line for line in page.splitlines() if line.startswith("`nested` is first")]
    first, behind = verdict.split("**It loses in:**")
    assert "AUROC" in first
    assert "AUR (ig 1.000 against 0.500)" in behind
    assert "AUROC" not in behind
    assert "AUR ([paper] Dynamask, 0.58)" in behind


def test_smoke_runs_stay_out_unless_asked_for(uri: str) -> None:
    client = MlflowClient(tracking_uri=uri)
    assert "| lime |" not in results_page(read_sections(client))
    assert "| lime |" in results_page(read_sections(client, quick=True))


def test_the_masks_of_a_logged_trial_come_back(uri: str) -> None:
    store = MlflowStore(rare_experiment("feature"), {"instances": 1, "quick": False}, client=MlflowClient(uri))
    trial = store.find(0, "ig")
    assert trial is not None
    assert trial.masks is not None
    assert trial.masks.masks.sum() == 125


def test_the_command_writes_the_page_and_explains_an_empty_store(uri: str, tmp_path: Path) -> None:
    page = tmp_path / "deep" / "results.md"
    outcome = CliRunner().invoke(experiment_command, ["results", "--tracking-uri", uri, "--output", str(page)])
    assert outcome.exit_code == 0, outcome.output
    assert page.read_text().startswith("# Results")
    (picture,) = (tmp_path / "deep" / "images").iterdir()
    assert f"(images/{picture.name})" in page.read_text()
    empty = CliRunner().invoke(experiment_command, ["results", "--tracking-uri", new_store(tmp_path, "none.db")])
    assert empty.exit_code == 3
    assert "with logged runs, but there is none" in empty.output


def test_a_dear_rival_is_compared_on_its_own_few_instances(tmp_path: Path) -> None:
    address = new_store(tmp_path)
    MlflowClient(tracking_uri=address).create_experiment(MLFLOW_EXPERIMENT, artifact_location=tmp_path.as_uri())
    log(address, ["nested", "ig"], [0], instances=3)
    log(address, ["nested", "fo"], [0], instances=2)
    (section,) = read_sections(MlflowClient(tracking_uri=address))
    own, dear, other = (one for name in ("nested", "fo", "ig") if (one := section.entry(name)))
    assert (own.instances, dear.instances) == (3, 2)
    assert section.peer(own, dear).instances == 2
    assert section.peer(own, other) is own
