"""The mask engine against a plain transcription of Algorithm 1, against the bare model, and against itself at scale.

All on one thread, in CPU seconds of the process, the two sides of each ratio measured in the same run. The white box of
the rare experiments costs next to nothing, so that its ratios to the bare model show the engine's own work alone.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.plain_algorithm1 import seconds_per_instance
from benchmarks.tasks import TASKS, Task
from dynamask_mlflow import explain
from dynamask_mlflow.masks import nested, one_answer
from dynamask_mlflow.masks.black_box import BlackBox, frozen
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.descent import Adam
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.operators import Batch, parse_operators
from dynamask_mlflow.masks.zoom import number_of_trials

INSTANCES = 64
REPEATS = 3


def cpu_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least of a few measurements, after one to warm up."""
    work()
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def bare_step(model: nn.Module, x: Tensor) -> float:
    """A forward and a backward pass to the inputs, weights frozen."""

    def step() -> None:
        leaf = x.clone().requires_grad_()
        torch.autograd.grad(model(leaf).sum(), leaf)

    with frozen(model, x.device):
        return cpu_seconds(step)


def bare_look(model: nn.Module, x: Tensor) -> float:
    """A forward pass alone."""

    def look() -> None:
        with torch.no_grad():
            model(x)

    with frozen(model, x.device):
        return cpu_seconds(look)


def bare_fit(task: Task, x: Tensor, bare: float) -> tuple[int, int, float]:
    """Steps with gradients, looks without them, and what the bare model would take for these: the fit without the
    choice of area.
    """
    if task.model(x[:2]).shape[1:] != (2,):
        steps = nested.STEPS + nested.LEVELS * len(nested.OPERATORS)
        steps += nested.CREDIT_LEVELS if task.task == "classification" else 0
        return steps, 0, steps * bare
    effort = one_answer.USUAL
    steps = effort.steps + effort.levels * len(one_answer.OPERATORS)
    looks = 2 * number_of_trials(x.shape[1], x.shape[2], effort.keep, effort.finest)
    return steps, looks, steps * bare + looks * bare_look(task.model, x)


def fit_step(task: Task, x: Tensor) -> float:
    """One step of the nested fit, averaged over a round of the operators."""
    with frozen(task.model, x.device):
        batch = Batch(x, None, torch.arange(len(x)), Draws(0, x.shape[1], x.shape[2], x.device))
        black_box = BlackBox(task.model, task.task, "values" if task.task == "regression" else "logits")
        config = ExplainConfig()
        game = Game.open(black_box, batch, parse_operators(nested.OPERATORS), "auto", deletion=False)
        fit = nested._Fit(game, nested._Plan.of(config, game), lambda: None)
        state = Adam(torch.randn_like(x), 0.01, 1000)
        area = torch.full((len(x),), 0.1)

        def turn() -> None:
            for step in range(len(nested.OPERATORS)):
                state.descend(fit._gradient(state, step, area))

        return cpu_seconds(turn) / len(nested.OPERATORS)


def compare(task: Task) -> dict[str, float | str]:
    x = task.x[:1].expand(INSTANCES, -1, -1) + 0.3 * torch.randn(INSTANCES, *task.x.shape[1:])
    bare = bare_step(task.model, x)
    step = fit_step(task, x)
    whole = cpu_seconds(lambda: explain(task.model, x, task=task.task, progress=False), 1)
    fast = cpu_seconds(lambda: explain(task.model, x, task=task.task, fast=True, progress=False), 1)
    steps, looks, least = bare_fit(task, x, bare)
    plain = seconds_per_instance(task)
    return {
        "plain s/instance": plain,
        "default s/instance": whole / INSTANCES,
        "times": plain / (whole / INSTANCES),
        "fast times": plain / (fast / INSTANCES),
        "step / bare": step / bare,
        "whole / bare steps": whole / least,
        "steps": steps,
        "looks": looks,
    }


def scaling() -> dict[str, dict[str, float | str]]:
    """Seconds an instance as T grows, and peak memory as N grows (each in a process of its own)."""
    rows: dict[str, dict[str, float | str]] = {}
    for steps in (200, 500, 1000, 2000):
        model = _gru(3, 64)
        x = torch.randn(4, steps, 3)
        seconds = cpu_seconds(lambda model=model, x=x: explain(model, x, steps=10, progress=False), 1)  # type: ignore[misc]
        rows[f"T = {steps}"] = {"default s/instance": seconds / 4, "ms / T": 1000 * seconds / 4 / steps}
    for number in (64, 256, 1024):
        code = f"from benchmarks.engine import peak_memory; print(peak_memory({number}))"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        rows[f"N = {number}"] = {"peak MB": float(result.stdout)}
    return rows


def peak_memory(number: int) -> float:
    torch.set_num_threads(1)
    explain(_gru(31, 64), torch.randn(number, 48, 31), steps=2, memory_budget=64 << 20, progress=False)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class _Classifier(nn.Module):
    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(channels, hidden, batch_first=True), nn.Linear(hidden, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.gru(x)[0][:, -1])
        return out


def _gru(channels: int, hidden: int) -> nn.Module:
    torch.manual_seed(0)
    return _Classifier(channels, hidden)


def run() -> dict[str, dict[str, float | str]]:
    torch.manual_seed(0)
    rows = {task.name: compare(task) for task in (make() for make in TASKS)}
    return rows | scaling()
