"""Signed contributions to a change: the gradient of the target score, integrated from one state to the other.

Along z(alpha) = before + alpha (after - before), from 0 to 1, the contributions
(after - before) * integral of d score / d z sum to the change of the score.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.path_attribution import Levels, gauss_legendre, midpoints
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
    return _integrate(target, before, after, [midpoints(number) for number in _doubled(levels)], tolerance)


def integrate_move(
    target: TargetScore, before: Tensor, after: Tensor, levels: int, tolerance: float, small: Tensor
) -> Contributions:
    """The same for two states that are close together, between which the score is smooth.

    A change smaller than `small` (B,) may be missed by as much as one of that size.
    """
    quadratures = [gauss_legendre(number) for number in _doubled(levels)]
    return _integrate(target, before, after, quadratures, tolerance, small)


def _doubled(levels: int) -> list[int]:
    numbers = [levels]
    while numbers[-1] < MOST_LEVELS:
        numbers.append(2 * numbers[-1])
    return numbers


def _integrate(
    target: TargetScore,
    before: Tensor,
    after: Tensor,
    quadratures: list[Levels],
    tolerance: float,
    small: Tensor | None = None,
) -> Contributions:
    step = after - before
    with torch.no_grad():
        wanted = target(after) - target(before)
    scale = wanted.abs().clamp(min=1e-6)
    needed = tolerance * (scale if small is None else torch.maximum(scale, small))
    cells, missed = torch.zeros_like(step), wanted
    settled = torch.zeros_like(wanted, dtype=torch.bool)
    for levels in quadratures:
        found = _integral(target, before, step, levels)
        # An instance keeps the levels at which it came out, whatever its neighbours need.
        cells = torch.where(settled[:, None, None], cells, found)
        missed = wanted - cells.flatten(1).sum(1)
        settled = missed.abs() <= needed
        if levels is quadratures[-1] or bool(settled.all()):
            break
    weight = cells.abs()
    total = weight.flatten(1).sum(1)
    # Where no gradient is felt anywhere, what is missing belongs to all cells that differ.
    weight = torch.where((total > 0)[:, None, None], weight, step.abs())
    total = weight.flatten(1).sum(1).clamp(min=1e-30)
    return Contributions(cells + (missed / total)[:, None, None] * weight, missed.abs() / scale)


def _integral(target: TargetScore, before: Tensor, step: Tensor, levels: Levels) -> Tensor:
    total = torch.zeros_like(step)
    for level, weight in levels:
        z = torch.add(before, step, alpha=level).requires_grad_()
        (gradient,) = torch.autograd.grad(target(z).sum(), z)
        total += weight * torch.where(torch.isfinite(gradient), gradient, torch.zeros_like(gradient))
    return total * step
