"""Downloads of a model, or of stays, go with the process that made them, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

MAKE = """
import sys, time
from multiprocessing import get_context
from dynamask_mlflow.tracking.mlflow_client import new_folder
def hold():
    print(new_folder(), flush=True)
if __name__ == "__main__":
    if sys.argv[1] == "process":
        child = get_context("fork").Process(target=hold)
        child.start()
        child.join()
    else:
        hold()
    if sys.argv[1] == "wait":
        time.sleep(60)
"""


def started(how: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", MAKE, how], env=environment, stdout=subprocess.PIPE, text=True)


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("dynamask-downloads-*")]


@pytest.mark.parametrize("how", ["end", "process"])
def test_they_go_when_the_process_ends_also_a_forked_one(how: str, tmp_path: Path) -> None:
    assert started(how, tmp_path).wait(60) == 0
    assert left(tmp_path) == []


def test_those_of_a_killed_process_go_with_the_next_one_those_of_a_running_one_stay(tmp_path: Path) -> None:
    killed, running = started("wait", tmp_path), started("wait", tmp_path)
    assert killed.stdout is not None
    assert running.stdout is not None
    gone, kept = Path(killed.stdout.readline().strip()), Path(running.stdout.readline().strip())
    killed.kill()
    killed.wait(60)
    assert gone.is_dir()
    assert started("end", tmp_path).wait(60) == 0
    assert not gone.exists()
    assert kept.is_dir()
    running.kill()
    running.wait(60)
    old = tmp_path / f"dynamask-downloads-{running.pid}-without-a-lock"
    old.mkdir()
    assert started("end", tmp_path).wait(60) == 0
    assert left(tmp_path) == [old.name]  # it may be of another container, until it is a day old
    os.utime(old, (time.time() - 90_000, time.time() - 90_000))
    assert started("end", tmp_path).wait(60) == 0
    assert left(tmp_path) == []
