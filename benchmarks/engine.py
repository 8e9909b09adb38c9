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
from dynamask_mlflow.masks import deletion_search, every_step, path_attribution, sequence_answer
from dynamask_mlflow.masks.black_box import BlackBox, frozen
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.descent import Adam, objective_gradient
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.mask_size import curve_sizes
from dynamask_mlflow.masks.operators import Batch, parse_operators
from dynamask_mlflow.masks.perturbation_objective import PerturbationObjective
from dynamask_mlflow.masks.target_spec import Target

INSTANCES = 64
REPEATS = 3
TURNS = 8


def cpu_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least of a few measurements, after one to warm up."""
    work()
    return min(_seconds(work) for _ in range(repeats))


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def in_turns(*works: Callable[[], object], turns: int = TURNS) -> list[float]:
    """The least of each, measured in turns, so that a busy neighbour disturbs all alike."""
    for work in works:
        work()
    rounds = [[_seconds(work) for work in works] for _ in range(turns)]
    return [min(column) for column in zip(*rounds, strict=True)]


def bare_step(model: nn.Module, x: Tensor) -> None:
    """A forward and a backward pass to the inputs."""
    leaf = x.clone().requires_grad_()
    torch.autograd.grad(model(leaf).sum(), leaf)


def bare_look(model: nn.Module, x: Tensor) -> None:
    """A forward pass alone."""
    with torch.no_grad():
        model(x)


def work_of(task: Task, x: Tensor) -> tuple[int, int]:
    """Steps with gradients, and looks without them, of a fit that gradients settle."""
    if not _answers_once(task):
        tuning = every_step.USUAL
        steps = tuning.steps + tuning.levels * len(every_step.OPERATORS)
        return steps + (tuning.class_levels if task.task == "classification" else 0), 0
    baselines = len(sequence_answer.OPERATORS)
    passes = path_attribution.LEVELS + path_attribution.RANDOM_MASKS
    steps = deletion_search.STEPS + passes * baselines
    cells = x[0].numel()
    looks = 1 + 3 * baselines + 2 * baselines * (len(curve_sizes(cells)) - 1) + 4
    return steps, looks


def _answers_once(task: Task) -> bool:
    return bool(task.model(task.x[:1]).shape[1:] == (2,))


def fit_steps(task: Task, x: Tensor) -> list[Callable[[], None]]:
    """The steps of the fit, one for each operator of its descent; of one answer a sequence, of the deletion play."""
    batch = Batch(x, None, torch.arange(len(x)), Draws(0, x.shape[1], x.shape[2], x.device))
    black_box = BlackBox(task.model, task.task, "values" if task.task == "regression" else "logits")
    if _answers_once(task):
        operators = parse_operators(sequence_answer.OPERATORS)
        answer, _ = deletion_search.answer_departure(Departure.open(black_box, batch, operators, Target()))
        return [lambda: _unused(deletion_search.deletion_scores(answer, torch.randn_like(x), 1, lambda: None))]
    operators = parse_operators(every_step.OPERATORS)
    objective = PerturbationObjective.prepare(black_box, batch, operators, "auto", deletion=False)
    state = Adam(torch.randn_like(x), 0.01, 1000)
    area = torch.full((len(x),), 0.1)

    def step_of(index: int) -> Callable[[], None]:
        return lambda: state.descend(objective_gradient(objective, state.scores, area, index, (index, 100)))

    return [step_of(index) for index in range(len(operators))]


def _unused(_: object) -> None:
    return None


def compare(task: Task) -> dict[str, float | str]:
    x = task.x[:1].expand(INSTANCES, -1, -1) + 0.3 * torch.randn(INSTANCES, *task.x.shape[1:])
    with frozen(task.model, x.device):
        step, look, *fits = in_turns(
            lambda: bare_step(task.model, x), lambda: bare_look(task.model, x), *fit_steps(task, x)
        )
    whole = min(_seconds(lambda: explain(task.model, x, task=task.task, progress=False)) for _ in range(2))
    fast = min(_seconds(lambda: explain(task.model, x, task=task.task, fast=True, progress=False)) for _ in range(2))
    steps, looks = work_of(task, x)
    plain = seconds_per_instance(task)
    return {
        "plain s/instance": plain,
        "default s/instance": whole / INSTANCES,
        "times": plain / (whole / INSTANCES),
        "fast times": plain / (fast / INSTANCES),
        "step / bare": sum(fits) / len(fits) / step,
        "whole / bare steps": whole / (steps * step + looks * look),
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
