"""API server, scheduler and DAG processor as users start them: triggered by REST, by an asset, by the calendar."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("airflow.sdk")
pytestmark = [pytest.mark.slow, pytest.mark.server]
DAG = "ward_server"


@pytest.fixture(scope="module")
def ward_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from small_ward import make_ward

    root = tmp_path_factory.mktemp("server") / "ward"
    make_ward(root)
    return root


@pytest.fixture(scope="module")
def airflow(ward_root: Path) -> Iterator[Any]:
    from airflow_servers import deployment

    server = deployment(ward_root.parent / "airflow", ward_root, mlflow_uri(ward_root))
    try:
        server.start_core()
        server.wait(lambda: server.call("GET", f"dags?dag_id_pattern={DAG}")["dags"], 600, "the DAG")
        yield server
    finally:
        server.stop()


def mlflow_uri(root: Path) -> str:
    return f"sqlite:///{root}/mlflow.db"


def audits(root: Path, window: str) -> list[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(mlflow_uri(root))
    home = client.get_experiment_by_name("dynamask-audits")
    wanted = f"tags.`dynamask.kind` = 'audit' and tags.`dynamask.window` = '{window}'"
    return list(client.search_runs([home.experiment_id], wanted)) if home else []


def fingerprints(root: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in (root / "store" / "shards").rglob("*.npz")}


def trigger(airflow: Any, **conf: Any) -> str:
    return str(airflow.call("POST", f"dags/{DAG}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"])


def test_an_audit_from_trigger_to_verdict_and_again(airflow: Any, ward_root: Path) -> None:
    from mlflow import MlflowClient

    airflow.call("POST", f"dags/{DAG}/dagRuns", {"logical_date": None, "conf": {"alpha": 5}}, expect=400)

    # Unpaused, the scheduler makes the run of the last month, for which the ward has no stays: not green.
    airflow.call("PATCH", f"dags/{DAG}", {"is_paused": False})
    scheduled = airflow.wait(lambda: airflow.call("GET", f"dags/{DAG}/dagRuns")["dag_runs"], 600, "the scheduled run")
    audited = airflow.wait_for_run(DAG, scheduled[0]["dag_run_id"]) == "success"
    assert audited == bool(audits(ward_root, scheduled[0]["data_interval_start"][:7]))

    run = trigger(airflow, window="2026-02")
    assert airflow.wait_for_run(DAG, run) == "success"
    (february,) = audits(ward_root, "2026-02")
    assert february.data.tags["dynamask.verdict"] == "ok"
    shards = [task for task in airflow.tasks(DAG, run) if task["task_id"] == "fit_shard"]
    assert sorted(task["rendered_map_index"].partition(":")[0] for task in shards) == [
        "canary", "predicted", "window 1 of 2", "window 2 of 2",
    ]  # fmt: skip
    links = airflow.call("GET", f"dags/{DAG}/dagRuns/{run}/taskInstances/report/links")["extra_links"]
    assert links["MLflow run"].startswith("http://mlflow.example/#/experiments/")
    assert links["MLflow run"].endswith(february.info.run_id)
    events = airflow.call("GET", "assets/events?limit=100")["asset_events"]
    assert "2026-02" in {event["extra"].get("window") for event in events}

    # Cleared and run again: the same run, one point a metric, the same masks.
    before = fingerprints(ward_root)
    airflow.call("POST", f"dags/{DAG}/dagRuns/{run}/clear", {"dry_run": False})
    assert airflow.wait_for_run(DAG, run) == "success"
    (again,) = audits(ward_root, "2026-02")
    assert again.info.run_id == february.info.run_id
    assert again.data.metrics == february.data.metrics
    client = MlflowClient(mlflow_uri(ward_root))
    for name in again.data.metrics:
        assert len(client.get_metric_history(again.info.run_id, name)) == 1, name
    assert fingerprints(ward_root) == before


def test_an_asset_event_names_the_window(airflow: Any, ward_root: Path) -> None:
    airflow.call("PATCH", f"dags/{DAG}", {"is_paused": False})
    (asset,) = airflow.call("GET", "assets?name_pattern=ward_data")["assets"]
    airflow.call("POST", "assets/events", {"asset_id": asset["id"], "extra": {"window": "2026-03"}})
    runs = airflow.wait(
        lambda: [
            run for run in airflow.call("GET", f"dags/{DAG}/dagRuns?limit=100")["dag_runs"]
            if run["run_type"] == "asset_triggered"
        ], 600, "the triggered run",
    )  # fmt: skip
    assert airflow.wait_for_run(DAG, runs[0]["dag_run_id"]) == "success"
    (march,) = audits(ward_root, "2026-03")
    assert march.data.tags["dynamask.verdict"] == "ok"


def test_a_backfill_audits_each_month_once(airflow: Any, ward_root: Path) -> None:
    span = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-02-01T00:00:00Z", "max_active_runs": 1}
    airflow.stop_scheduling()
    airflow.call("POST", "backfills", {"dag_id": DAG, **span})
    airflow.start_scheduling()

    def done() -> list[str] | None:
        runs = airflow.call("GET", f"dags/{DAG}/dagRuns?limit=100")["dag_runs"]
        states = [run["state"] for run in runs if run["run_type"] == "backfill"]
        return states if len(states) == 2 and {"queued", "running"}.isdisjoint(states) else None

    assert airflow.wait(done, 900, "the backfill") == ["success", "success"]
    assert [len(audits(ward_root, window)) for window in ("2026-01", "2026-02")] == [1, 1]


def test_the_demo_gives_the_reference_and_reaches_a_verdict(airflow: Any, ward_root: Path) -> None:
    from dynamask_mlflow.cli.airflow_demo import first_verdict, read_verdict

    first_verdict(airflow, "2026-04")
    found = read_verdict(mlflow_uri(ward_root), "2026-04")
    assert (found["window"], found["state"]) == ("2026-04", "drift")
    assert found["reason"]
