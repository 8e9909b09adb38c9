"""Commands against a tracking server, as they are used: MLflow prints and downloads more than with a local store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pytest
import torch
from stores import new_store

import dynamask_mlflow

sys.path.append(str(Path(__file__).parents[1] / "tracking"))
pytestmark = pytest.mark.server


class LastOfChannelZero(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([-x[:, -1, 0], x[:, -1, 0]], dim=1)


def test_json_is_alone_on_stdout_and_nothing_is_left_behind(tmp_path: Path) -> None:
    from local_servers import mlflow_server

    x = np.random.default_rng(0).normal(size=(4, 6, 2)).astype(np.float32)
    np.savez(tmp_path / "stays.npz", x=x)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    before = mlflow.get_tracking_uri()
    with mlflow_server(new_store(tmp_path), tmp_path) as server:
        try:
            mlflow.set_tracking_uri(server.url)
            dynamask_mlflow.log_model(
                LastOfChannelZero(),
                name="model",
                task="classification",
                input_example=x[:2],
                pip_requirements=["torch"],
                registered_model_name="last",
            )
        finally:
            mlflow.set_tracking_uri(before)
        env = {**os.environ, "MLFLOW_TRACKING_URI": server.url, "TMPDIR": str(temporary)}
        start = [sys.executable, "-c", "from dynamask_mlflow.cli import main; main()"]
        for command in (["explain"], ["evaluate", "--set", "images=0"]):
            done = subprocess.run(
                [*start, command[0], "models:/last/1", "stays.npz", *command[1:], "--json"],
                cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=True,
            )  # fmt: skip
            assert isinstance(json.loads(done.stdout), dict)
            left = [path.name for path in temporary.iterdir() if path.name.startswith("dynamask")]
            assert left == []
            if command[0] == "explain":
                copies = [str(path) for path in temporary.rglob("*") if path.name in ("MLmodel", "dynamask.json")]
                assert copies == []
