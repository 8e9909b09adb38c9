"""What several inputs cost: memory beyond the arrays that the user holds, and time of models that take one input.

python -m benchmarks.input_cost
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import evaluate_masks
from dynamask_mlflow.masks.binding import Binding
from dynamask_mlflow.masks.model_call import plan_call
from dynamask_mlflow.tracking.dataset import from_sequences
from dynamask_mlflow.tracking.open_network import open_network

N, STEPS, CHANNELS = 8000, 48, 16


class Network(nn.Module):
    """Values, mask, gaps and static features."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(CHANNELS, 2)

    def forward(self, values: Tensor, observed: Tensor, deltas: Tensor, static: Tensor) -> Tensor:
        out: Tensor = self.head((values * observed + 0.01 * deltas).mean(1)) + static
        return out


class Plain(nn.Module):
    """One input."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.GRU(CHANNELS, 64, batch_first=True), nn.Linear(64, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.recurrent(x)[1][-1])
        return out


def time_of_plain_models() -> None:
    """CPU time of everything that only exists for other models, as a share of an evaluation of a plain one."""
    spent = {"": 0.0}

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            begin = time.process_time()
            try:
                return function(*args, **options)
            finally:
                spent[""] += time.process_time() - begin

        return call

    x = np.random.default_rng(0).normal(size=(32, STEPS, CHANNELS))
    sequences = from_sequences(x).sequences
    config = EvaluationConfig(instances=None, images=0, progress=False)
    begin = time.process_time()
    with ExitStack() as patched:
        for name in ("model_of", "inputs_of", "batch", "map_of"):
            patched.enter_context(patch.object(Binding, name, timed(getattr(Binding, name))))
        patched.enter_context(patch("dynamask_mlflow.masks.binding.plan_call", timed(plan_call)))
        network, config = timed(open_network)(Plain(), sequences, "classification", config)
        evaluate_masks(network, sequences, task="classification", config=config)
    total = time.process_time() - begin
    print(f"a plain GRU, 32 instances: {total:.2f} CPU s, of which opening and binding {100 * spent[''] / total:.1f} %")


def main() -> None:
    torch.set_num_threads(1)
    time_of_plain_models()
    rng = np.random.default_rng(0)
    shape = (N, STEPS, CHANNELS)
    x, observed = rng.normal(size=shape).astype(np.float32), rng.random(shape) < 0.5
    extras = {"deltas": rng.random(shape).astype(np.float32), "static": rng.normal(size=(N, 2)).astype(np.float32)}
    sizes = {"x": x.nbytes, "observed": observed.nbytes, **{name: values.nbytes for name, values in extras.items()}}
    print("given: " + ", ".join(f"{name} {size / 2**20:.1f} MB" for name, size in sizes.items()))
    tracemalloc.start()
    sequences = from_sequences(x, observed=observed, extras=extras).sequences
    held, peak = tracemalloc.get_traced_memory()
    print(f"from_sequences: keeps {held / 2**20:.1f} MB, at most {peak / 2**20:.1f} MB")
    tracemalloc.reset_peak()
    config = EvaluationConfig(instances=8, images=0, progress=False)
    network, config = open_network(Network(), sequences, "classification", config)
    print(f"opening the model: at most {(tracemalloc.get_traced_memory()[1] - held) / 2**20:.1f} MB more")
    tracemalloc.reset_peak()
    evaluate_masks(network, sequences, task="classification", config=config)
    print(f"explaining 8 instances: at most {(tracemalloc.get_traced_memory()[1] - held) / 2**20:.1f} MB more")


if __name__ == "__main__":
    main()
