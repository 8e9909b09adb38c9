"""What stands between the client and the server may say yes to what it never stored, or ask for hours of patience."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
import requests
from gateway import Rule, gateway
from local_servers import Server, mlflow_server

from dynamask_mlflow.masks.process_state import untouched_process
from dynamask_mlflow.tracking.errors import SpoolError, UploadError
from dynamask_mlflow.tracking.spool import ARTIFACTS, Destination, Point, new_spool, write_manifest
from dynamask_mlflow.tracking.upload import SECONDS_VARIABLE, short_retries, signed_in, upload, upload_or_keep

FILE = "dynamask/masks.npz"


@pytest.fixture(scope="module")
def server(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "mlflow.db").write_bytes(empty_store.read_bytes())
    with mlflow_server(f"sqlite:///{folder}/mlflow.db", folder) as made:
        yield made


def spool_of(run_id: str, url: str, folder: Path) -> Path:
    spool = new_spool(str(folder / "spools"), run_id)
    (spool / ARTIFACTS / "dynamask").mkdir()
    (spool / ARTIFACTS / FILE).write_bytes(b"x" * 1000)
    about = Destination(run_id=run_id, tracking_uri=url, dataset_name="d", dataset_digest="1", status="FINISHED")
    write_manifest(spool, about, points=[Point("dynamask/area", 0.5)], files=[FILE])
    return spool


def new_run(client: mlflow.MlflowClient) -> str:
    home = client.get_experiment_by_name("gateway")
    return str(client.create_run(home.experiment_id if home else client.create_experiment("gateway")).info.run_id)


def stored(client: mlflow.MlflowClient, run_id: str) -> list[str]:
    return [file.path for file in client.list_artifacts(run_id, "dynamask")]


@pytest.mark.server
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (lambda method, path, n: (200, {}, b"<html>Sign in</html>") if method == "PUT" else None, "there is none"),
        (lambda method, path, n: (200, {"Content-Type": "application/json"}, b"{}"), "its answer has none"),
        (lambda method, path, n: (200, {}, b"<html>Sign in</html>"), "not in a valid JSON format"),
        (lambda method, path, n: (503, {"Retry-After": "3600"}, b""), "503"),
        (lambda method, path, n: (429, {"Retry-After": "3600"}, b""), "429"),
    ],
)
def test_no_answer_of_a_gateway_loses_results_or_takes_long(
    server: Server,
    rule: Rule,
    said: str,
    tmp_path: Path,
    clean_mlflow: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SECONDS_VARIABLE, "0")
    client = mlflow.MlflowClient(server.url)
    with gateway(server.url, lambda *request: None) as between:
        mlflow.set_tracking_uri(between.url)
        mlflow.set_experiment("gateway")  # whose artifacts go through the server, unlike those of the default one
        run = mlflow.start_run()
        spool = spool_of(run.info.run_id, between.url, tmp_path)
        between.rule = rule
        with pytest.raises(UploadError, match=said) as raised, run:
            upload_or_keep(spool)
        assert f"Finish with: dynamask-mlflow upload {spool}" in str(raised.value)
    assert spool.is_dir()
    assert not (tmp_path / "dynamask").exists()  # nothing was written where the process happens to be
    assert stored(client, run.info.run_id) == []


@pytest.mark.server
def test_a_restart_behind_a_gateway_is_waited_for(server: Server, tmp_path: Path, clean_mlflow: None) -> None:
    client = mlflow.MlflowClient(server.url)
    run_id = new_run(client)
    with gateway(server.url, lambda method, path, n: (502, {}, b"Bad gateway") if n <= 3 else None) as between:
        upload_or_keep(spool_of(run_id, between.url, tmp_path))
    assert stored(client, run_id) == [FILE]
    assert list((tmp_path / "spools").iterdir()) == []


@pytest.mark.server
def test_a_file_cut_on_its_way_keeps_the_spool(server: Server, tmp_path: Path, clean_mlflow: None) -> None:
    client = mlflow.MlflowClient(server.url)
    run_id = new_run(client)
    spool = spool_of(run_id, server.url, tmp_path)

    def rule(method: str, path: str, n: int) -> tuple[int, dict[str, str], bytes] | None:
        if method != "PUT":
            return None
        requests.put(f"{server.url}{path}", data=b"x" * 10, timeout=60)
        return 200, {}, b"{}"

    with gateway(server.url, rule) as between:
        with pytest.raises(SpoolError, match="one of 10 bytes"):
            upload(spool, between.url)
        assert spool.is_dir()
        between.rule = lambda *request: None
        upload(spool, between.url)
    assert stored(client, run_id) == [FILE]


def test_variables_of_two_threads_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    before, seen = dict(os.environ), list[str | None]()

    def other() -> None:
        with short_retries():
            seen.append(os.environ.get("MLFLOW_HTTP_REQUEST_MAX_RETRIES"))

    def fit() -> None:
        with untouched_process():
            pass

    threads = [threading.Thread(target=work) for work in (other, fit)]
    with short_retries():
        for thread in threads:
            thread.start()
        threads[1].join(0.2)
    for thread in threads:
        thread.join(60)
    assert seen == ["1"]
    assert dict(os.environ) == before  # neither taken away too early, nor taken for the user's own

    def another_server() -> None:
        with signed_in("http://other:5000"):
            seen.append(os.environ.get("MLFLOW_TRACKING_PASSWORD"))

    thread = threading.Thread(target=another_server)
    with signed_in("http://ann:hunter2@tracking:5000"):
        thread.start()
        thread.join(0.2)
    thread.join(20)
    assert seen == ["1", None]
