"""What an evaluation costs beside the fit itself: share of the time inside the fit, and memory by instances.

A GRU of 200 units on MIMIC-shaped data (T = 48, d = 31), through `mlflow.models.evaluate` on a local store.
Each size runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = (64, 256, 1024)


def evaluate(instances: int, folder: Path) -> dict[str, Any]:
    """Evaluate once; seconds of the whole evaluator and of its fit, peak memory in MB."""
    import resource

    import mlflow
    import numpy as np
    import torch

    import dynamask_mlflow
    from dynamask_mlflow.tracking.dataset import from_sequences

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = torch.nn.GRU(31, 200, batch_first=True)
            self.head = torch.nn.Linear(200, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.head(self.gru(x)[0][:, -1])
            return hidden

    torch.manual_seed(0)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    x = np.random.default_rng(0).normal(size=(max(SIZES), 48, 31)).astype(np.float32)
    dynamask_mlflow.save_model(Network(), folder / "model", task="classification", input_example=x[:2])
    model = mlflow.pyfunc.load_model(str(folder / "model"))
    data = from_sequences(x, targets=np.arange(len(x)) % 2)
    config = {"instances": instances, "memory_budget": 1 << 28, "progress": False}
    with mlflow.start_run():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.perf_counter()
        result = mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            model, data, model_type="classifier", evaluators="dynamask", evaluator_config=config
        )
        total = time.perf_counter() - begin
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fit = result.metrics["dynamask/seconds_fit"]
    return {
        "instances": instances,
        "seconds": round(total, 2),
        "seconds_fit": round(fit, 2),
        "share_in_fit": round(fit / total, 3),
        "peak_mb_before": before // 1024,
        "peak_mb": after // 1024,
    }


def run(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Rows for each number of instances, and the share of the fit for 256."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.evaluate_cost", str(size), folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
    share = next((row["share_in_fit"] for row in rows if row["instances"] == 256), None)
    return {"share_in_fit": share, "rows": rows}


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(evaluate(int(sys.argv[1]), Path(sys.argv[2]))))
    else:
        print(json.dumps(run(), indent=1))
