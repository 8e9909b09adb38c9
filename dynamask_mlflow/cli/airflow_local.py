"""A whole Airflow on one machine: real processes on free ports, spoken to by REST, always stopped."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AIRFLOW = [sys.executable, "-m", "airflow"]


class AirflowError(RuntimeError):
    """A process ended, a call was refused, or something did not come; the message has the end of the logs."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Deployment:
    """Processes of one Airflow, and its REST interface."""

    folder: Path
    env: dict[str, str]
    port: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = ""

    def start(self, name: str, *command: str, **more: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*AIRFLOW, *command], env={**self.env, **more}, stdout=log, stderr=log, start_new_session=True
            )

    def run(self, *command: str) -> None:
        done = subprocess.run([*AIRFLOW, *command], env=self.env, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise AirflowError(
                f"Expected airflow {' '.join(command)} to succeed, but it failed:\n{done.stderr[-3000:]}"
            )

    def start_core(self) -> None:
        """Database, then the API server, since tasks that are queued before it fail; then the others."""
        self.run("db", "migrate")
        self.start("api", "api-server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1")
        self.wait(self.log_in, 600, "the API server")
        self.start_scheduling()

    def start_scheduling(self) -> None:
        self.start("processor", "dag-processor")
        self.start("scheduler", "scheduler")

    def stop_scheduling(self) -> None:
        """The API server stays alone with the database: SQLite refuses a backfill while others write."""
        self._end(["scheduler", "processor"])

    def kill(self, name: str) -> None:
        """SIGKILL to a process and to all its descendants, as when a machine is lost."""
        parent = self.processes.pop(name)
        for pid in [*descendants(parent.pid), parent.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        parent.wait(timeout=30)

    def stop(self) -> None:
        self._end(list(self.processes))

    def _end(self, names: list[str]) -> None:
        for name in names:
            if self.processes[name].poll() is None:
                self.processes[name].terminate()
        deadline = time.monotonic() + 20
        for name in names:
            try:
                self.processes[name].wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill(name)
            else:
                del self.processes[name]

    def call(self, method: str, path: str, body: Any = None, expect: int | None = None) -> Any:
        import requests

        answer = requests.request(
            method, f"http://127.0.0.1:{self.port}/api/v2/{path}", json=body, timeout=60,
            headers={"Authorization": f"Bearer {self.token}"},
        )  # fmt: skip
        if answer.status_code != expect if expect is not None else not answer.ok:
            raise AirflowError(
                f"Expected {expect or 'success'} for {path}, but got {answer.status_code} {answer.text[:2000]}"
            )
        return answer if expect is not None else answer.json()

    def wait(self, ready: Callable[[], Any], seconds: float, what: str) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = ready()
            if found:
                return found
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            if dead:
                raise AirflowError(f"Expected {', '.join(dead)} to run, but ended:\n{self.logs(dead)}")
            time.sleep(1)
        raise AirflowError(
            f"Expected {what} within {seconds} s, but waited in vain.\n{self.logs(list(self.processes))}"
        )

    def wait_for_run(self, dag: str, run_id: str, seconds: float = 900) -> str:
        def ended() -> str | None:
            state = self.call("GET", f"dags/{dag}/dagRuns/{run_id}")["state"]
            return state if state in ("success", "failed") else None

        return str(self.wait(ended, seconds, f"{dag} {run_id}"))

    def tasks(self, dag: str, run_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"dags/{dag}/dagRuns/{run_id}/taskInstances?limit=100")[
            "task_instances"
        ]
        return found

    def logs(self, names: list[str]) -> str:
        return "\n".join(f"--- {name}\n{(self.folder / f'{name}.log').read_text()[-2500:]}" for name in names)

    def log_in(self) -> bool:
        """Get a token; False as long as the API server does not answer."""
        import requests

        try:
            answer = requests.get(f"http://127.0.0.1:{self.port}/auth/token", timeout=5)
        except requests.RequestException:
            return False
        if answer.ok:
            self.token = answer.json()["access_token"]
        return answer.ok


def local_airflow(folder: Path, dags: Path, **settings: str) -> Deployment:
    """An Airflow in `folder` that reads the DAG files in `dags`. Settings are `SECTION__NAME=value`.

    SQLite and the LocalExecutor: for a demo and for tests. Everybody on this machine is its administrator.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    chosen = {
        "CORE__DAGS_FOLDER": str(dags),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "2",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "API__BASE_URL": f"http://127.0.0.1:{port}",
        "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "API__SECRET_KEY": secrets.token_hex(32),
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "LOGGING__BASE_LOG_FOLDER": str(folder / "logs"),
        **settings,
    }
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "MLFLOW"))}
    env = {
        **inherited,
        **{f"AIRFLOW__{name}": value for name, value in chosen.items()},
        "AIRFLOW_HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "OMP_NUM_THREADS": "1",
    }
    return Deployment(folder, env, port)


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, as /proc tells."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found
