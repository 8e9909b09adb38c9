"""What an evaluation costs beside the fit itself, and memory by the number of instances.

A GRU of 200 units on MIMIC-shaped data (T = 48, d = 31), default settings but for a memory budget of 256 MB, through
`mlflow.models.evaluate` on a local store, each size in a process of its own. The fit is the time inside
`dynamask_mlflow.explain` alone: predictions, scores, random controls, files, pictures, the report and the upload are
not in it. The first evaluation in a process makes MLflow import scikit-learn and matplotlib, whatever is evaluated;
these seconds stand in a column of their own, and one share is without them, the other with them. Shares are of
processor time, which neighbours on the machine disturb less.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = (64, 256, 1024)


class Clock:
    """Seconds of the wall and of the processor inside a block, added up."""

    def __init__(self) -> None:
        self.wall = self.processor = 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._begin[0]
        self.processor += time.process_time() - self._begin[1]


def evaluate(instances: int, folder: Path) -> dict[str, Any]:
    """Evaluate once, in a process that has not evaluated before."""
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
    imports, call, fit = Clock(), Clock(), Clock()
    engine: Any = importlib.import_module("dynamask_mlflow.masks.explain")
    plain = engine.explain

    def timed(*args: Any, **options: Any) -> Any:
        with fit:
            return plain(*args, **options)

    engine.explain = timed
    with mlflow.start_run():
        with imports:  # what `mlflow.models.evaluate` does first
            importlib.import_module("mlflow.models.evaluation.evaluator_registry")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with call:
            mlflow.models.evaluate(  # type: ignore[no-untyped-call]
                model, data, model_type="classifier", evaluators="dynamask", evaluator_config=config
            )
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "instances": instances,
        "seconds": round(call.wall, 1),
        "seconds in the fit": round(fit.wall, 1),
        "share in the fit": round(fit.processor / call.processor, 3),
        "MLflow's imports, seconds": round(imports.wall, 1),
        "share with these imports": round(fit.processor / (call.processor + imports.processor), 3),
        "peak MB before": before // 1024,
        "peak MB": after // 1024,
    }


def run(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """A row for each number of instances."""
    rows = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.evaluate_cost", str(size), folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        rows[f"N = {row.pop('instances')}"] = row
    return rows


if __name__ == "__main__":
    if len(sys.argv) == 3:
        import torch

        torch.set_num_threads(1)
        print(json.dumps(evaluate(int(sys.argv[1]), Path(sys.argv[2]))))
    else:
        print(json.dumps(run(), indent=1))
