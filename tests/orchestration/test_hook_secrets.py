"""A connection's password is in no link and in no message."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("airflow.sdk")


def test_links_and_messages_hold_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    from dynamask_mlflow.orchestration.hook import MlflowHook

    before = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    for name, value in (("MAX_RETRIES", "0"), ("TIMEOUT", "1")):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    connection = SimpleNamespace(
        host="http://ann:hunter2@127.0.0.1", port=9, schema=None, login=None, password=None, extra_dejson={}
    )
    monkeypatch.setattr(MlflowHook, "_find", lambda self: connection)
    try:
        assert MlflowHook().apply() == "http://127.0.0.1:9"
        reached, message = MlflowHook().test_connection()
        assert not reached
        assert "hunter2" not in message
    finally:
        mlflow.set_tracking_uri(before[0])
        mlflow.set_registry_uri(before[1])
