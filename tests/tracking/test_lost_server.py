"""A tracking server that goes away: the user has an answer within a minute, and one command finishes the job."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from click.testing import CliRunner
from local_servers import Server, free_port, start_mlflow
from small_networks import GRUClassifier, sequences

import dynamask_mlflow
from dynamask_mlflow.cli import main
from dynamask_mlflow.tracking.errors import UploadError
from dynamask_mlflow.tracking.spool import Destination, Point, new_spool, write_manifest
from dynamask_mlflow.tracking.upload import is_lost, patiently, short_retries, upload_or_keep

pytestmark = pytest.mark.server

SCRIPT = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import mlflow, torch
from small_networks import sequences
torch.set_num_threads(1)
X, Y = sequences(60)
mlflow.set_tracking_uri({url!r})
mlflow.set_experiment("icu")
model = mlflow.pyfunc.load_model({model!r})
import dynamask_mlflow.masks.explain as engine
explain = engine.explain
def explain_while_the_server_dies(*args, **options):
    os.killpg({group}, signal.SIGKILL)
    return explain(*args, **options)
engine.explain = explain_while_the_server_dies
with mlflow.start_run() as run:
    print(run.info.run_id, flush=True)
    mlflow.models.evaluate(model, mlflow.data.from_sequences(X, targets=Y), model_type="classifier",
        evaluators="dynamask", evaluator_config=dict(instances=4, steps=20, images=1, spool={spool!r}))
"""


class Place:
    def __init__(self, folder: Path, empty_store: Path) -> None:
        shutil.copy(empty_store, folder / "mlflow.db")
        self.folder, self.port = folder, free_port()
        self.server = self.start()

    def start(self) -> Server:
        self.server = start_mlflow(
            f"sqlite:///{self.folder}/mlflow.db", self.folder / "artifacts", self.folder / "log", self.port
        )
        return self.server


@pytest.fixture
def place(tmp_path: Path, empty_store: Path, clean_mlflow: None) -> Iterator[Place]:
    made = Place(tmp_path, empty_store)
    try:
        yield made
    finally:
        made.server.stop(signal.SIGKILL)


def saved_model(network: GRUClassifier, folder: Path) -> str:
    dynamask_mlflow.save_model(network, folder / "m", task="classification", input_example=sequences(2)[0])
    return str(folder / "m")


@pytest.mark.slow
def test_a_lost_server_is_reported_within_a_minute_and_one_command_finishes_the_job(
    place: Place, network: GRUClassifier, tmp_path: Path
) -> None:
    spools = tmp_path / "spool"
    script = SCRIPT.format(
        tests=str(Path(__file__).parent),
        url=place.server.url,
        model=saved_model(network, tmp_path),
        group=place.server.process.pid,
        spool=str(spools),
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "DYNAMASK_"))}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1, text=True, env=env)
    place.server.process.wait(timeout=120)
    out, err = process.communicate(timeout=240)  # MLflow's own retries would take twice as long
    assert process.returncode == 1
    (spool,) = spools.iterdir()
    last = err.strip().splitlines()[-1]
    assert last.startswith("dynamask_mlflow.tracking.errors.UploadError: dynamask: the upload failed: ")
    assert last.endswith(f"All results are saved in {spool}. Finish with: dynamask-mlflow upload {spool}")
    assert "MlflowException" in err  # the cause

    run_id = out.split()[0]
    listed = CliRunner().invoke(main, ["upload", "--list"]).output
    assert f"{spool}  run {run_id} on {place.server.url}" in listed
    place.start()
    client = mlflow.MlflowClient(place.server.url)
    assert client.get_run(run_id).info.status == "RUNNING"
    done = CliRunner().invoke(main, ["upload", str(spool)])
    assert done.exit_code == 0, done.output
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["dynamask/instances"] == 4
    assert list(spools.iterdir()) == []
    again = CliRunner().invoke(main, ["upload", str(spool)])
    assert again.exit_code == 3
    assert "It may have been uploaded already" in again.output
    assert client.get_run(run_id).info.end_time == run.info.end_time
    listed = CliRunner().invoke(main, ["upload", "--list", "--in", str(spools)]).output
    assert listed == "Nothing waits to be uploaded.\n"


def test_a_full_store_fails_the_run_and_the_later_upload_finishes_it(
    place: Place, network: GRUClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_UPLOAD_SECONDS", "1")
    mlflow.set_tracking_uri(place.server.url)
    mlflow.set_experiment("icu")
    x, y = sequences(20)
    model = saved_model(network, tmp_path)
    (tmp_path / "artifacts").write_text("in the way")
    with pytest.raises(UploadError, match="Finish with: dynamask-mlflow upload") as raised, mlflow.start_run() as run:
        mlflow.models.evaluate(
            model,
            mlflow.data.from_sequences(x, targets=y),
            model_type="classifier",
            evaluators="dynamask",
            evaluator_config={"instances": 3, "steps": 10, "images": 0, "spool": str(tmp_path / "spool")},
        )
    assert raised.value.__cause__ is not None
    client = mlflow.MlflowClient()
    assert client.get_run(run.info.run_id).info.status == "FAILED"
    (spool,) = (tmp_path / "spool").iterdir()
    (tmp_path / "artifacts").unlink()
    done = CliRunner().invoke(
        main, ["upload", str(spool), "--tracking-uri", place.server.url.replace("//", "//ann:hunter2@")]
    )
    assert done.exit_code == 0, done.output
    assert "hunter2" not in done.output
    assert client.get_run(run.info.run_id).info.status == "FINISHED"


@pytest.mark.slow
def test_a_server_that_hangs_is_reported_within_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MLFLOW_HTTP", "DYNAMASK_UPLOAD"))]:
        monkeypatch.delenv(name)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)  # connections are accepted, requests never answered
        spool = empty_spool(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(UploadError, match="All results are saved in"):
            upload_or_keep(spool)
    assert spool.is_dir()


def empty_spool(folder: Path, uri: str) -> Path:
    spool = new_spool(str(folder / "spool"), "abc")
    write_manifest(
        spool,
        Destination(run_id="abc", tracking_uri=uri, dataset_name="d", dataset_digest="1"),
        points=[Point("dynamask/area", 0.5)],
        files=[],
    )
    return spool


def test_no_password_is_printed_when_the_upload_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_UPLOAD_SECONDS", "0")
    uri = f"http://ann:hunter2@127.0.0.1:{free_port()}"
    spool = empty_spool(tmp_path, uri)
    assert "hunter2" not in (spool / "manifest.json").read_text()
    failed = CliRunner().invoke(main, ["upload", str(spool), "--tracking-uri", uri])
    assert failed.exit_code == 3
    assert f"The results are still in {spool}" in failed.output
    assert "hunter2" not in failed.output


def test_retries_are_short_unless_the_user_has_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    monkeypatch.delenv(name, raising=False)
    with short_retries():
        assert os.environ[name] == "1"
    assert name not in os.environ
    monkeypatch.setenv(name, "9")
    with short_retries():
        assert os.environ[name] == "9"
    assert os.environ[name] == "9"


def test_only_silence_is_waited_for() -> None:
    tries: list[float] = []

    def work(error: Exception) -> None:
        tries.append(time.monotonic())
        if len(tries) < 3:
            raise error

    patiently(lambda: work(ConnectionError("gone")), seconds=10)
    assert len(tries) == 3
    tries.clear()
    with pytest.raises(ValueError, match="no"):
        patiently(lambda: work(ValueError("no")), seconds=10)
    assert len(tries) == 1
    assert not is_lost(ValueError("no"))


def test_the_command_needs_a_folder_or_list() -> None:
    result = CliRunner().invoke(main, ["upload"])
    assert result.exit_code == 2
    assert re.search("Expected the folder SPOOL, or --list", result.output)
