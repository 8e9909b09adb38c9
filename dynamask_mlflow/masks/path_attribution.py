"""Signed attributions: the gradient of the target score, integrated from each baseline to the input.

Along M = alpha, from 0 to 1, the score moves from the baseline's to the input's, and
integral of sum_i (d score / d m_i) d alpha = score - baseline score: attributions sum to the departure. For a fade
this is Integrated Gradients with that baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.departure import Departure

LEVELS, FAST_LEVELS = 6, 3
# Where the sum misses the departure by more than this share of it, the integral is taken again with more levels.
TOLERANCE = 0.1
MORE_LEVELS = 24


@dataclass(frozen=True)
class PathAttributions:
    """Attributions of a batch, in the direction of the departure.

    Attributes:
        attributions: (B, T, d), summing to the departure.
        magnitude: (B, T, d) mean |gradient| along the way: 0 for cells that the model does not read.
        remainder: (B,) the share of the departure that the levels missed and that was spread over the cells in
            proportion to their |attribution|.
        by_operator: (O, B, T, d) under each baseline alone.
    """

    attributions: Tensor
    magnitude: Tensor
    remainder: Tensor
    by_operator: Tensor

    def rows(self, index: Tensor) -> PathAttributions:
        parts = self.attributions[index], self.magnitude[index], self.remainder[index], self.by_operator[:, index]
        return PathAttributions(*parts)


def path_attributions(departure: Departure, levels: int) -> PathAttributions:
    """Integrate with `levels` levels, and with more where the sum does not come out."""
    by_operator, magnitude = _integrate(departure, levels)
    wanted = added_up(departure.weights * departure.gap)
    scale = torch.maximum(wanted.abs(), departure.reach * 0.1).clamp(min=1e-12)
    missed = wanted - _weighted(departure, by_operator).flatten(1).sum(1)
    rows = departure.rows_where((missed.abs() > TOLERANCE * scale) & ~departure.negligible)
    if rows is not None and len(rows):
        finer, size = _integrate(departure.rows(rows), MORE_LEVELS)
        by_operator, magnitude = by_operator.index_copy(1, rows, finer), magnitude.index_copy(0, rows, size)
    attributions = _weighted(departure, by_operator)
    missed = wanted - attributions.flatten(1).sum(1)
    size = attributions.abs()
    total = size.flatten(1).sum(1)
    spread = torch.where(total > 0, missed / total.clamp(min=1e-30), torch.zeros_like(total))
    attributions = attributions + spread[:, None, None] * size
    return PathAttributions(attributions, magnitude, missed.abs() / scale, by_operator)


def _weighted(departure: Departure, by_operator: Tensor) -> Tensor:
    return added_up(departure.weights[:, :, None, None] * by_operator)


def _integrate(departure: Departure, levels: int) -> tuple[Tensor, Tensor]:
    """(O, B, T, d) the integral under each baseline, and (B, T, d) the mean size of its gradients."""
    by_operator, magnitude = [], torch.zeros_like(departure.batch.x)
    for operator in range(len(departure.perturbations)):
        integral = torch.zeros_like(magnitude)
        for level in range(levels):
            mask = torch.full_like(integral, (level + 0.5) / levels)
            gradient = departure.gradient_under(mask, operator)
            integral += gradient / levels
            magnitude += gradient.abs() / levels
        by_operator.append(integral)
    return torch.stack(by_operator), magnitude
