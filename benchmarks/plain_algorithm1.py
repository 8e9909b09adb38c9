"""Algorithm 1 of the paper written down plainly: one instance, one area, one step after the other.

The blur multiplies by a T x T matrix for every feature, gradients come from autograd, and areas are a Python
loop. This is what a careful reader of the paper would write first; everything else is measured against it. A
whole fit takes minutes, so a few steps are timed and the rest is extrapolated: steps are alike.
"""

from __future__ import annotations

import math
import time
from functools import cache

import torch
from torch import Tensor

from benchmarks.tasks import TASKS, Task

MEASURED_STEPS = 20


def gaussian_blur(x: Tensor, mask: Tensor, sigma_max: float) -> Tensor:
    """x~_ti = sum_t' x_t'i g(t - t') / sum_t' g(t - t'), g of standard deviation sigma_max (1 - m_ti)."""
    steps = torch.arange(len(x), dtype=x.dtype)
    distance = (steps[:, None] - steps[None, :]).square()
    sigma = sigma_max * (1 - mask) + 1e-4
    weights = torch.exp(-distance[:, :, None] / (2 * sigma[:, None, :].square()))
    return torch.einsum("tsi,si->ti", weights, x) / weights.sum(1)


def moving_average(x: Tensor, mask: Tensor) -> Tensor:
    """m x + (1 - m) mu with W = T, where the window is the whole series: its mean."""
    return mask * x + (1 - mask) * x.mean(0, keepdim=True)


def perturb(task: Task, x: Tensor, mask: Tensor) -> Tensor:
    return moving_average(x, mask) if task.blur is None else gaussian_blur(x, mask, task.blur)


def error(task: Task, reference: Tensor, output: Tensor) -> Tensor:
    """Squared error, or cross-entropy with the reference's probabilities, summed over the output times."""
    if task.task == "regression":
        return (output - reference).square().sum()
    return -(reference.softmax(-1) * output.log_softmax(-1)).sum()


def fit(task: Task, x: Tensor, area: float, steps: int, total: int) -> Tensor:
    """The first `steps` of `total` steps of Algorithm 1 for one instance x (T, d) and one area."""
    reference = task.model(x[None])[0].detach()
    ones = round(area * x.numel())
    target = torch.cat([torch.zeros(x.numel() - ones), torch.ones(ones)])
    mask = torch.full_like(x, 0.5)
    change = torch.zeros_like(x)
    size_weight = task.size_weight
    growth = math.exp(math.log(task.dilation) / total)
    for _ in range(steps):
        mask.requires_grad_()
        kept = 1 - mask if task.deletion else mask
        prediction = task.model(perturb(task, x, kept)[None])[0]
        loss = error(task, reference, prediction) * (-1 if task.deletion else 1)
        loss = loss + size_weight * (mask.flatten().sort().values - target).square().sum()
        loss = loss + task.time_weight * (mask[1:] - mask[:-1]).abs().sum()
        (gradient,) = torch.autograd.grad(loss, mask)
        change = gradient + change
        mask = (mask.detach() - change).clamp(0, 1)
        size_weight *= growth
    return mask


@cache
def seconds_per_instance(task: Task, measured_steps: int = MEASURED_STEPS) -> float:
    """CPU seconds of a whole fit of one instance, all areas, extrapolated from `measured_steps` steps of one."""
    for parameter in task.model.parameters():
        parameter.requires_grad_(False)
    fit(task, task.x[0], task.areas[0], 2, task.steps)
    start = time.process_time()
    fit(task, task.x[0], task.areas[0], measured_steps, task.steps)
    return (time.process_time() - start) / measured_steps * task.steps * len(task.areas)


@cache
def run() -> dict[str, dict[str, float | str]]:
    """For each workload the cost of one instance."""
    rows: dict[str, dict[str, float | str]] = {}
    for make in TASKS:
        task = make()
        rows[task.name] = {
            "seconds_per_instance": seconds_per_instance(task),
            "areas": len(task.areas),
            "steps": task.steps,
            "note": f"extrapolated from {MEASURED_STEPS} steps at one area",
        }
    return rows
