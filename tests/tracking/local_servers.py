"""Real servers for tests: started on a free port, waited for, and always stopped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End the server with all its workers, which share its session."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, how)
        self.process.wait(timeout=30)


def start(command: list[str], port: int, log: Path, health: str = "health", timeout: float = 600) -> Server:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # MLflow calls uvicorn
    env = {**os.environ, "PATH": path, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "OMP_NUM_THREADS": "1"}
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=file, stderr=file, start_new_session=True, env=env
        )
    server = Server(process, f"http://127.0.0.1:{port}", log)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if requests.get(f"{server.url}/{health}", timeout=2).ok:
                return server
        except requests.ConnectionError:
            time.sleep(0.3)
    server.stop(signal.SIGKILL)
    raise RuntimeError(f"The server did not answer:\n{log.read_text()[-3000:]}")


def start_mlflow(backend: str, artifacts: Path, log: Path, port: int | None = None, *more: str) -> Server:
    port = port or free_port()
    command = ["mlflow", "server", "--backend-store-uri", backend, "--artifacts-destination", str(artifacts)]
    return start([*command, "--host", "127.0.0.1", "--port", str(port), "--workers", "1", *more], port, log)


@contextmanager
def mlflow_server(backend: str, folder: Path) -> Iterator[Server]:
    server = start_mlflow(backend, folder / "artifacts", folder / "server.log")
    try:
        yield server
    finally:
        server.stop()
