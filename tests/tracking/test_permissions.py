"""Whoever may only read a model may still evaluate it."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import mlflow
import pytest
from local_servers import start_mlflow
from mlflow.server import get_app_client
from small_networks import GRUClassifier, sequences

import dynamask_mlflow

X, Y = sequences(20)
PASSWORD = "correct-horse-battery"


def become(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", user)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)


@pytest.mark.server
def test_metrics_go_to_the_run_alone_where_linking_them_to_the_model_is_refused(
    empty_store: Path,
    tmp_path: Path,
    clean_mlflow: None,
    network: GRUClassifier,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pytest.importorskip("flask_wtf", reason="MLflow's basic-auth app needs Flask-WTF")
    settings = (
        "[mlflow]\ndefault_permission = READ\nadmin_username = admin\n"
        f"database_uri = sqlite:///{tmp_path}/auth.db\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    (tmp_path / "auth.ini").write_text(settings)
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    monkeypatch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(tmp_path / "auth.ini"))
    monkeypatch.setenv("MLFLOW_AUTH_ADMIN_PASSWORD", PASSWORD)
    monkeypatch.setenv("MLFLOW_FLASK_SERVER_SECRET_KEY", "a secret of this test")
    become("admin", monkeypatch)
    backend, log = f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "log"
    server = start_mlflow(backend, tmp_path / "artifacts", log, None, "--app-name", "basic-auth")
    try:
        mlflow.set_tracking_uri(server.url)
        mlflow.set_experiment("models")
        with mlflow.start_run():
            info = dynamask_mlflow.log_model(network, name="gru", task="classification", input_example=X[:2])
        get_app_client("basic-auth", tracking_uri=server.url).create_user("auditor", PASSWORD)

        become("auditor", monkeypatch)
        mlflow.set_experiment("audits")
        model = mlflow.pyfunc.load_model(info.model_uri)
        model._model_id = None  # as for a registered version: MLflow itself does not link then
        with mlflow.start_run() as run, caplog.at_level(logging.WARNING, logger="dynamask_mlflow"):
            result = mlflow.models.evaluate(
                model,
                mlflow.data.from_sequences(X, targets=Y),
                model_type="classifier",
                evaluators="dynamask",
                evaluator_config={"instances": 3, "steps": 20, "images": 0},
            )
        stored = mlflow.get_run(run.info.run_id)
        assert stored.data.metrics["dynamask/ce"] == result.metrics["dynamask/ce"]
        assert "linking them to model" in caplog.text
        assert not mlflow.get_logged_model(info.model_id).metrics
    finally:
        server.stop()
