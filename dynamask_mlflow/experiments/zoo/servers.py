"""Servers of MLflow on this machine: the registry of the zoo, and a model behind an address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SECONDS = 300.0
"""How long a server may take until it answers; a busy machine needs minutes."""


@contextmanager
def tracking_server(folder: Path) -> Iterator[str]:
    """`mlflow server` on a free port with a store of its own; its address."""
    port = _free_port()
    command = ["server", "--backend-store-uri", f"sqlite:///{folder}/zoo.db", "--artifacts-destination"]
    command += [str(folder / "artifacts"), "--workers", "1"]
    with _running(command, port, folder / "server.log", "health") as url:
        yield url


@contextmanager
def scoring_server(model_uri: str, folder: Path) -> Iterator[str]:
    """`mlflow models serve` on a free port; its address."""
    port = _free_port()
    command = ["models", "serve", "--model-uri", model_uri, "--env-manager", "local", "--workers", "1"]
    with _running(command, port, folder / "scoring.log", "ping") as url:
        yield url


@contextmanager
def _running(command: Sequence[str], port: int, log: Path, health: str) -> Iterator[str]:
    import mlflow

    url = f"http://127.0.0.1:{port}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # MLflow calls uvicorn
    env = {**os.environ, "PATH": path, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    if command[0] != "server":
        env["MLFLOW_TRACKING_URI"] = mlflow.get_tracking_uri()
    arguments = [sys.executable, "-m", "mlflow", *command, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("ab") as file:
        process = subprocess.Popen(arguments, stdout=file, stderr=file, start_new_session=True, env=env)
    try:
        deadline = time.monotonic() + SECONDS
        while not _answers(f"{url}/{health}"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Expected a server of MLflow, but it did not answer: {log.read_text()[-1000:]}")
            time.sleep(0.3)
        yield url
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)  # its workers share its session
        process.wait(timeout=60)


def _answers(url: str) -> bool:
    import requests

    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
