"""The DAG files of `dags/` as users copy them, run on the synthetic hospital: reference, a backfill, an experiment."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow.sdk")
pytestmark = pytest.mark.slow
DAGS = Path(__file__).parents[2] / "dags"
# What masks depend on must be the same for reference and audits.
EXPLAIN = {"steps": 15, "seed": 0, "device": "cpu"}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    from synthetic_ward import make_hospital

    root = tmp_path_factory.mktemp("hospital")
    make_hospital(root)
    return SimpleNamespace(uri=f"sqlite:///{root}/mlflow.db", root=root)


@pytest.fixture
def shipped(hospital: SimpleNamespace, airflow_db: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The DAGs, set up by the variables that docs/airflow.md names."""
    import mlflow
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    monkeypatch.setenv("DYNAMASK_MODEL", "models:/hospital-risk@champion")
    monkeypatch.setenv("DYNAMASK_DATASET", str(hospital.root / "data"))
    monkeypatch.setenv("DYNAMASK_STORE", str(hospital.root / "store"))
    monkeypatch.setenv("DYNAMASK_CACHE", str(hospital.root / "cache"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", hospital.uri)
    mlflow.set_tracking_uri(hospital.uri)
    mlflow.set_registry_uri(hospital.uri)
    bag = DagBag(DAGS, bundle_path=DAGS, bundle_name="shipped")
    assert not bag.import_errors
    sync_bag_to_db(bag, "shipped", None)
    return bag.dags


def verdicts(hospital: SimpleNamespace) -> dict[str, dict[str, Any]]:
    """Window -> verdict; more than one run for a window is an error."""
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts

    client = MlflowClient(hospital.uri)
    home = client.get_experiment_by_name("dynamask-audits")
    runs = client.search_runs([home.experiment_id], "tags.`dynamask.kind` = 'audit'")
    windows = [run.data.tags["dynamask.window"] for run in runs]
    assert len(set(windows)) == len(windows)
    paths = [download_artifacts(run_id=run.info.run_id, artifact_path="dynamask/verdict.json") for run in runs]
    return {window: json.loads(Path(path).read_text()) for window, path in zip(windows, paths, strict=True)}


def test_a_backfill_tells_the_months_of_the_synthetic_hospital(shipped: dict[str, Any], hospital: Any) -> None:
    first = datetime(2024, 1, 1, tzinfo=UTC)
    settings = {"anchors": 5, "noise_seeds": 0}
    reference = shipped["explanation_reference"].test(
        logical_date=first, run_conf={**EXPLAIN, "reference_instances": 250, "settings": settings}
    )
    assert str(reference.state) == "success"

    conf = {
        **EXPLAIN, "minimum": 40, "tolerance": 0.2, "effect": 0.01,
        "settings": {**settings, "quality_effect": 2.0, "trend_window": 1, "trust_minimum": 20},
    }  # fmt: skip
    for month in (7, 8, 9, 10):  # of each month's end: its data interval is the month
        run = shipped["explanation_audit"].test(logical_date=datetime(2024, month + 1, 1, tzinfo=UTC), run_conf=conf)
        assert str(run.state) == "success"
    told = verdicts(hospital)
    assert set(told) == {"2024-07", "2024-08", "2024-09", "2024-10"}
    # What was planted: another assay of lactate since January, fewer SpO2 since April, Fahrenheit in September alone.
    always = {"LACTATE", "SpO2"}
    assert all(always <= set(verdict["moved_inputs"]) for verdict in told.values())
    assert [window for window, verdict in told.items() if "Temp" in verdict["moved_inputs"]] == ["2024-09"]
    september = told["2024-09"]
    assert september["state"] == "drift", september
    assert september["moved_channels"] == ["Temp"]
    assert {"data", "inputs"} <= set(september["causes"])
    # The assay and the thinner charting are told as what they are: inputs that matter, not attention that moved.
    assert {verdict["state"] for window, verdict in told.items() if window != "2024-09"} <= {"ok", "warning"}

    # The same months again: nothing is fitted, nothing is added.
    shards = {path: path.stat().st_mtime_ns for path in (hospital.root / "store" / "shards").rglob("*.npz")}
    shipped["explanation_audit"].test(logical_date=datetime(2024, 10, 1, tzinfo=UTC), run_conf=conf)
    assert verdicts(hospital) == told
    assert {path: path.stat().st_mtime_ns for path in (hospital.root / "store" / "shards").rglob("*.npz")} == shards


def test_an_experiment_of_the_paper_is_run_and_logged(shipped: dict[str, Any], hospital: SimpleNamespace) -> None:
    from mlflow import MlflowClient

    conf = {"experiments": ["rare-feature"], "seeds": "1", "quick": True}
    dag = shipped["paper_experiments"]
    run = dag.test(logical_date=datetime(2024, 1, 1, tzinfo=UTC), run_conf=conf)
    assert str(run.state) == "success"
    states = {(ti.task_id, ti.map_index): str(ti.state) for ti in run.get_task_instances()}
    assert states == {("choose", -1): "success", ("run", 0): "success"}
    client = MlflowClient(hospital.uri)
    logged = [
        found
        for home in client.search_experiments()
        for found in client.search_runs([home.experiment_id])
        if "rare-feature" in home.name or "rare-feature" in found.info.run_name
    ]
    assert any("aup" in name.lower() for found in logged for name in found.data.metrics), logged
