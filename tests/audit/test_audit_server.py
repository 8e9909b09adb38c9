"""The tracking server is lost when an audit ends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import mlflow
import pytest
from audit_hospital import SETTINGS, Lactate, hospital, register
from stores import new_store

from dynamask_mlflow.audit import (
    AuditConfig,
    AuditSource,
    TrackingLostError,
    audit_history,
    build_reference,
    fit_shard,
    plan_audit,
    prepare_audit,
    report_audit,
    run_audit,
)

sys.path.append(str(Path(__file__).parents[1] / "tracking"))


@pytest.mark.server
@pytest.mark.slow
def test_a_lost_server_costs_nothing_but_a_second_try(tmp_path, monkeypatch):
    from local_servers import start_mlflow

    for name in ("MAX_RETRIES", "BACKOFF_FACTOR"):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", "1")
    backend, files = new_store(tmp_path, "server.db"), tmp_path / "artifacts"
    server = start_mlflow(backend, files, tmp_path / "log")
    port = int(server.url.rpartition(":")[2])
    before = mlflow.get_tracking_uri()
    try:
        mlflow.set_tracking_uri(server.url)
        mlflow.set_experiment("models")
        register(tmp_path, Lactate())
        data = str(hospital().save(tmp_path / "icu"))
        options = {"config": AuditConfig(**SETTINGS), "store": str(tmp_path / "shards")}
        build_reference("models:/icu@champion", data, "2026-01", **options)
        request = prepare_audit(
            AuditSource(model="models:/icu@champion", data=data, window="2026-02", store=options["store"]),
            options["config"],
        )
        uris = plan_audit(request)
        for uri in uris:
            fit_shard(uri)
        server.stop(signal.SIGKILL)
        with pytest.raises(TrackingLostError, match="run the audit again"):
            report_audit(request, uris)
        server = start_mlflow(backend, files, tmp_path / "log", port)
        done = []
        verdict = run_audit("models:/icu@champion", data, "2026-02", progress=done.append, **options)
        assert verdict.state == "ok"
        assert all(shard.skipped for shard in done)
        assert len(audit_history("dynamask-audits", "icu")) == 1
    finally:
        server.stop()
        mlflow.set_tracking_uri(before)
        mlflow.tracking.fluent._active_experiment_id = None
