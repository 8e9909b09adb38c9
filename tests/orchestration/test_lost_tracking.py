"""The tracking server dies when all shards of a DAG run are fitted."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("airflow.sdk")
pytestmark = [pytest.mark.slow, pytest.mark.server]
sys.path.append(str(Path(__file__).parents[1] / "tracking"))


def test_a_server_lost_at_the_end_is_a_failed_run_that_a_rerun_completes(
    dags: dict[str, Any], ward: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    from local_servers import start_mlflow

    for name in ("MAX_RETRIES", "BACKOFF_FACTOR"):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", "1")
    server = start_mlflow(ward.uri, tmp_path / "artifacts", tmp_path / "log")
    (ward.root / "server.pid").write_text(str(server.process.pid))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    mlflow.set_tracking_uri(server.url)
    mlflow.set_registry_uri(server.url)
    due = datetime(2026, 3, 1, tzinfo=UTC)
    try:
        broken = dags["ward_lost"].test(logical_date=due)
        tasks = {ti.task_id: ti for ti in broken.get_task_instances() if ti.map_index < 0}
        fits = [str(ti.state) for ti in broken.get_task_instances() if ti.map_index >= 0]
        assert str(broken.state) == "failed"
        assert str(tasks["report"].state) == "failed"
        assert tasks["report"].try_number == 2  # silence may pass
        assert fits == ["success"] * 4
        shards = {path: path.stat().st_mtime_ns for path in (ward.root / "store" / "shards").rglob("*.npz")}

        server = start_mlflow(ward.uri, tmp_path / "artifacts", tmp_path / "log", int(server.url.rpartition(":")[2]))
        again = dags["ward_lost"].test(logical_date=due)
        assert str(again.state) == "success"
        assert {path: path.stat().st_mtime_ns for path in (ward.root / "store" / "shards").rglob("*.npz")} == shards
        client = mlflow.MlflowClient(server.url)
        home = client.get_experiment_by_name("lost")
        (audit,) = client.search_runs([home.experiment_id], "tags.`dynamask.kind` = 'audit'")
        assert audit.info.status == "FINISHED"
        assert audit.data.tags["dynamask.verdict"] == "ok"
    finally:
        server.stop()
        mlflow.set_tracking_uri(ward.uri)
        mlflow.set_registry_uri(ward.uri)
