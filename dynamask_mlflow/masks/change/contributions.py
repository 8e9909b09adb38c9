"""Signed contributions to a change: the gradient of the target score, integrated from one state to the other.

Along z(alpha) = before + alpha (after - before), from 0 to 1, the contributions
(after - before) * integral of d score / d z sum to the change of the score.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.target import TargetScore

FIRST_LEVELS, MOST_LEVELS = 8, 128
# Levels are doubled where the sum misses the change by more than this share of it.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Contributions:
    """Of a batch.

    Attributes:
        cells: (B, T, d), summing to score(after) - score(before).
        remainder: (B,) the share of that sum which the levels missed; it is spread in proportion to |cells|.
    """

    cells: Tensor
    remainder: Tensor


def integrate_change(
    target: TargetScore, before: Tensor, after: Tensor, levels: int = FIRST_LEVELS, tolerance: float = TOLERANCE
) -> Contributions:
    """Contributions of the cells in which two states (B, T, d) differ.

    All instances go on with more levels as long as one of them needs it: none is moved to another batch.
    """
    step = after - before
    with torch.no_grad():
        wanted = target(after) - target(before)
    scale = wanted.abs().clamp(min=1e-6)
    cells, missed = torch.zeros_like(step), wanted
    settled = torch.zeros_like(wanted, dtype=torch.bool)
    while True:
        found = _integral(target, before, step, levels)
        # An instance keeps the levels at which it came out, whatever its neighbours need.
        cells = torch.where(settled[:, None, None], cells, found)
        missed = wanted - cells.flatten(1).sum(1)
        settled = missed.abs() <= tolerance * scale
        if levels >= MOST_LEVELS or bool(settled.all()):
            break
        levels *= 2
    weight = cells.abs()
    total = weight.flatten(1).sum(1)
    # Where no gradient is felt anywhere, what is missing belongs to all cells that differ.
    weight = torch.where((total > 0)[:, None, None], weight, step.abs())
    total = weight.flatten(1).sum(1).clamp(min=1e-30)
    return Contributions(cells + (missed / total)[:, None, None] * weight, missed.abs() / scale)


def _integral(target: TargetScore, before: Tensor, step: Tensor, levels: int) -> Tensor:
    """Midpoint sum."""
    total = torch.zeros_like(step)
    for level in range(levels):
        z = torch.add(before, step, alpha=(level + 0.5) / levels).requires_grad_()
        (gradient,) = torch.autograd.grad(target(z).sum(), z)
        total += torch.where(torch.isfinite(gradient), gradient, torch.zeros_like(gradient)) / levels
    return total * step
