"""The guide of docs/airflow.md, typed into a shell: from a dataset and a model to verdicts on a real scheduler."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from stores import new_store

pytest.importorskip("airflow.sdk")
pytestmark = [pytest.mark.slow, pytest.mark.server]
PAGE = Path(__file__).parents[2] / "docs" / "airflow.md"
PORT = "8080"
REFERENCE, AUDIT = "explanation_reference", "explanation_audit"


def commands() -> list[str]:
    """The lines of the page's blocks that are marked to be run on a scheduler."""
    blocks = re.findall(r"<!-- run: scheduler -->\n```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


class Shell:
    """One bash, given a line at a time; what it and its background processes print is in a file."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.log = folder / "shell.log"
        self.lines = 0
        with self.log.open("wb") as out:
            self.bash = subprocess.Popen(
                ["bash"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True,
                start_new_session=True,
            )  # fmt: skip

    def type(self, line: str, seconds: float = 600) -> str:
        """Run a line; what it printed. SQLite may be locked for a moment: tried again, as the page says."""
        for _ in range(8):
            code, printed = self._once(line, seconds)
            if code == 0 or "locked" not in printed:
                break
            time.sleep(4)
        assert code == 0, f"{line}\n{printed[-3000:]}"
        return printed

    def _once(self, line: str, seconds: float) -> tuple[int, str]:
        self.lines += 1
        before, mark = self.log.stat().st_size, f"line-{self.lines}-ended:"
        assert self.bash.stdin is not None
        self.bash.stdin.write(f"{line}\necho {mark}$?\n")
        self.bash.stdin.flush()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            printed = self.log.read_bytes()[before:].decode(errors="replace")
            ended = re.search(rf"{mark}(\d+)", printed)
            if ended:
                return int(ended.group(1)), printed
            assert self.bash.poll() is None, f"{line}\n{printed[-3000:]}"
            time.sleep(0.5)
        raise AssertionError(f"Expected {line!r} to end within {seconds} s.\n{printed[-3000:]}")

    def close(self) -> None:
        from dynamask_mlflow.cli.airflow_local import descendants

        for pid in [*descendants(self.bash.pid), self.bash.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.bash.wait(timeout=30)


@pytest.fixture
def empty_machine(tmp_path: Path) -> Iterator[tuple[Shell, str]]:
    """A folder in which step 1 of the page was done, with the ward in place of the hospital; a shell; a free port."""
    from airflow_servers import free_port
    from small_ward import build_ward, register
    from ward_settings import SETTINGS

    build_ward(tmp_path / ".demo" / "dataset", "2024-09", ("2024-08", "2024-09"), "2023-06")
    register(new_store(tmp_path / ".demo"), tmp_path / "artifacts", "icu-mortality")
    foreign = ("AIRFLOW", "MLFLOW", "DYNAMASK", "WARD")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    env["DYNAMASK_SETTINGS"] = json.dumps(SETTINGS)
    env["AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT"] = str(free_port())
    shell = Shell(tmp_path, env)
    try:
        yield shell, str(free_port())
    finally:
        shell.close()


def test_the_commands_of_the_guide_lead_to_verdicts(empty_machine: tuple[Shell, str], tmp_path: Path) -> None:
    from dynamask_mlflow.cli.airflow_local import Deployment

    shell, port = empty_machine
    airflow = Deployment(tmp_path, {}, int(port))

    def succeeded(dag: str, kind: str) -> bool:
        runs = airflow.call("GET", f"dags/{dag}/dagRuns?limit=100")["dag_runs"]
        states = [run["state"] for run in runs if run["dag_run_id"].startswith(kind)]
        assert "failed" not in states, shell.log.read_text(errors="replace")[-3000:]
        return "success" in states

    typed = commands()
    assert sum("airflow" in line for line in typed) >= 10
    for line in typed:
        printed = shell.type(line.replace(PORT, port))
        if "api-server" in line:
            airflow.wait(airflow.log_in, 600, "the API server")
        elif f"unpause {REFERENCE}" in line:
            airflow.wait(lambda: succeeded(REFERENCE, "scheduled"), 400, "the reference")
        elif f"unpause {AUDIT}" in line:
            airflow.wait(lambda: succeeded(AUDIT, "manual"), 400, "the audit")
        elif "unpause explanation_reconcile" in line:
            airflow.wait(lambda: succeeded(AUDIT, "reconcile"), 400, "the audit of the other month")
        elif "audit show" in line:
            assert re.search(r"2024-09 +1 +default +drift", printed), printed
