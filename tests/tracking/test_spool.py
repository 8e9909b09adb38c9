"""Folders for results: opened and measured before the fits, tidied, and read with suspicion."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException
from small_evaluations import evaluate

from dynamask_mlflow.cli import main
from dynamask_mlflow.tracking import spool as spools
from dynamask_mlflow.tracking.errors import SpoolError
from dynamask_mlflow.tracking.spool import (
    ARTIFACTS,
    MANIFEST,
    Destination,
    Point,
    find_spools,
    new_spool,
    read_manifest,
    write_manifest,
    written_to,
)
from dynamask_mlflow.tracking.upload import upload

Usage = namedtuple("Usage", "total used free")
HOST = socket.gethostname().encode()


def full_spool(base: Path, uri: str = "http://127.0.0.1:1", run_id: str = "abc") -> Path:
    spool = new_spool(str(base), run_id)
    (spool / ARTIFACTS / "dynamask").mkdir()
    (spool / ARTIFACTS / "dynamask" / "a.txt").write_text("masks")
    write_manifest(
        spool,
        Destination(run_id=run_id, tracking_uri=uri, dataset_name="d", dataset_digest="1", status="FINISHED"),
        points=[Point("dynamask/area", 0.5), Point("dynamask/nan", float("nan"))],
        files=["dynamask/a.txt"],
    )
    return spool


def no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dynamask_mlflow.tracking.evaluate_run.evaluate_masks", lambda *a, **k: pytest.fail("it was fitted")
    )


def test_a_folder_that_cannot_be_written_is_named_before_the_fits(
    store: Path, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_fit(monkeypatch)
    (store / "file").write_text("in the way")
    with pytest.raises(MlflowException, match=r"Expected a folder for results that can be written, but .*file"):
        evaluate(saved, spool=str(store / "file" / "spool"))


def test_a_full_disk_is_named_before_the_fits(store: Path, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_fit(monkeypatch)
    monkeypatch.setattr(spools.shutil, "disk_usage", lambda _: Usage(10**9, 10**9, 5_000_000))
    with pytest.raises(MlflowException, match=r"Expected \d+ MB free for the results in .*, but there are 5 MB"):
        evaluate(saved, spool=str(store / "spool"))
    assert list((store / "spool").iterdir()) == []


def test_the_room_for_results_is_taken_before_the_fits(tmp_path: Path) -> None:
    needed = 1 << 20
    spool = new_spool(str(tmp_path), "abc", needed)
    taken = sum(path.stat().st_blocks * 512 for path in spool.iterdir())
    assert taken >= needed
    with written_to(spool):
        assert sum(path.stat().st_blocks * 512 for path in spool.iterdir() if path.is_file()) < needed
    with pytest.raises(SpoolError, match=r"Expected room .* No space left on device"), written_to(spool):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_error_or_an_interrupt_in_the_fits_leaves_no_spool(
    store: Path, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dynamask_mlflow.tracking.evaluate_run.evaluate_masks", stop)
    with pytest.raises(KeyboardInterrupt):
        evaluate(saved, spool=str(store / "spool"))
    assert list((store / "spool").iterdir()) == []


def test_an_upload_without_a_server_needs_no_credentials_and_is_complete(store: Path) -> None:
    with mlflow.start_run() as run:
        pass
    mlflow.MlflowClient().update_run(run.info.run_id, status="RUNNING")
    spool = full_spool(store / "spool", mlflow.get_tracking_uri(), run.info.run_id)
    upload(spool, end_run=True)
    found = mlflow.MlflowClient().get_run(run.info.run_id)
    assert (found.info.status, found.data.metrics["dynamask/area"]) == ("FINISHED", 0.5)
    assert not spool.exists()


def test_what_a_killed_process_left_is_removed_and_finished_results_are_mentioned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = (
        "import os, sys; from dynamask_mlflow.tracking.spool import new_spool; "
        "new_spool(sys.argv[1], 'abc'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    done = full_spool(tmp_path)
    owner = json.loads((done / "owner.json").read_text())
    (done / "owner.json").write_text(json.dumps({**owner, "pid": 2**22 + 1}))
    old = time.time() - 3600
    os.utime(left, (old, old))
    shown = CliRunner().invoke(main, ["upload", "--list", "--in", str(tmp_path)]).output
    assert f"{left}  unfinished" in shown
    assert f"{done}  run abc on http://127.0.0.1:1" in shown
    with caplog.at_level(logging.WARNING):
        mine = new_spool(str(tmp_path), "def")
    assert sorted(tmp_path.iterdir()) == sorted([done, mine])
    assert "1 earlier results" in caplog.text
    assert "upload --list" in caplog.text
    assert {found.path: found.complete for found in find_spools([tmp_path])} == {done: True, mine: False}


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"[" * 100_000, b'{"pid": 1e999, "host": ""}', b'{"pid": %d, "host": "%s"}' % (10**30, HOST)],
)
def test_a_damaged_file_of_an_earlier_process_stops_no_evaluation(tmp_path: Path, content: bytes) -> None:
    done = full_spool(tmp_path)
    (done / "owner.json").write_bytes(content)
    spools.discard(new_spool(str(tmp_path), "def"))
    assert [found.path for found in find_spools([tmp_path])] == [done]


@pytest.mark.parametrize("entry", ["x" * 10_000, "a\0b", 5, None, ["x"]])
def test_a_damaged_list_of_folders_forgets_no_other(
    tmp_path: Path, entry: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = full_spool(tmp_path / "one")
    index = tmp_path / "cache" / "dynamask_mlflow" / "spool_folders.json"
    index.write_text(json.dumps([entry, str(tmp_path / "one")]))
    spools.discard(new_spool(str(tmp_path / "two"), "def"))
    assert [found.path for found in find_spools() if found.path.is_relative_to(tmp_path)] == [done]


@pytest.mark.parametrize("what", ["artifact", "folder", "manifest", "spool"])
def test_links_are_refused(tmp_path: Path, what: str) -> None:
    spool = full_spool(tmp_path / "base")
    secret = tmp_path / "secret"
    target = {
        "artifact": spool / ARTIFACTS / "dynamask" / "a.txt",
        "folder": spool / ARTIFACTS / "dynamask",
        "manifest": spool / MANIFEST,
        "spool": spool,
    }[what]
    target.rename(secret)
    target.symlink_to(secret)
    with pytest.raises(SpoolError, match="link"):
        upload(spool)
    assert secret.exists()
    assert CliRunner().invoke(main, ["upload", str(spool)]).exit_code == 3


def test_a_spool_that_others_can_write_is_refused(tmp_path: Path) -> None:
    spool = full_spool(tmp_path)
    spool.chmod(0o777)
    with pytest.raises(SpoolError, match="nobody else can write"):
        upload(spool)
    assert find_spools([tmp_path]) == []


CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda m: [],
    lambda m: None,
    lambda m: "text",
    lambda m: {},
    lambda m: {**m, "schema_version": 99},
    lambda m: {**m, "points": None},
    lambda m: {**m, "points": [1]},
    lambda m: {**m, "points": [{"key": 5, "value": 1.0}]},
    lambda m: {**m, "points": [{"key": "a", "value": "x"}]},
    lambda m: {**m, "points": [{"key": "a", "value": 1.0, "more": 1}]},
    lambda m: {**m, "points": [{"value": 1.0}]},
    lambda m: {**m, "files": ["a"]},
    lambda m: {**m, "files": {"../../etc/passwd": "0" * 64}},
    lambda m: {**m, "files": {"/etc/passwd": "0" * 64}},
    lambda m: {**m, "files": {"a\0b": "0" * 64}},
    lambda m: {**m, "files": {"dynamask/a.txt": 5}},
    lambda m: {**m, "files": {"dynamask/a.txt": "0" * 64}},
    lambda m: {**m, "files": {"dynamask/none.txt": "0" * 64}},
    lambda m: {**m, "run_id": 5},
    lambda m: {**m, "run_id": "../x"},
    lambda m: {**m, "status": "EXPLODED"},
    lambda m: {**m, "timestamp": "now"},
    lambda m: {**m, "more": 1},
    lambda m: {k: v for k, v in m.items() if k != "tables"},
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_malformed_manifest_is_named(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    spool = full_spool(tmp_path)
    stored = json.loads((spool / MANIFEST).read_text())
    (spool / MANIFEST).write_text(json.dumps(change(stored)))
    with pytest.raises(SpoolError, match="Expected"):
        upload(spool)
    shown = CliRunner().invoke(main, ["upload", str(spool)])
    assert shown.exit_code == 3
    assert "Error: Expected" in shown.output
    assert "Traceback" not in shown.output
    assert CliRunner().invoke(main, ["upload", "--list", "--in", str(tmp_path)]).exit_code == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["run_id", "points", "files", "tables", "timestamp", "status", "model_id", "link_model"]), JSON)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_manifest_gives_another_error(tmp_path: Path, key: str, value: Any) -> None:
    base = tmp_path / "fuzz"
    shutil.rmtree(base, ignore_errors=True)
    spool = full_spool(base)
    stored = json.loads((spool / MANIFEST).read_text())
    (spool / MANIFEST).write_text(json.dumps({**stored, key: value}))
    with contextlib.suppress(SpoolError):
        read_manifest(spool)


def test_a_folder_that_only_looks_like_a_spool_is_left_alone(tmp_path: Path) -> None:
    from dynamask_mlflow.tracking import spool

    theirs = tmp_path / "dynamask-demo" / "artifacts"
    theirs.mkdir(parents=True)
    os.utime(theirs.parent, (0, 0))
    spool.discard(spool.new_spool(str(tmp_path), "0" * 32, 1))
    assert theirs.is_dir()
