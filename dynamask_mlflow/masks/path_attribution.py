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
        integrals: (B, T, d), summing to the departure less what the levels missed of it.
        missed: (B,) that.
        magnitude: (B, T, d) mean |gradient| along the way: 0 for cells that the model does not read.
        remainder: (B,) the share of the departure that the levels missed.
        by_operator: (O, B, T, d) under each baseline alone.
    """

    integrals: Tensor
    missed: Tensor
    magnitude: Tensor
    remainder: Tensor
    by_operator: Tensor

    @property
    def attributions(self) -> Tensor:
        """(B, T, d), summing to the departure: what was missed is spread in proportion to |integral|."""
        return self.spread_by(self.integrals.abs())

    def spread_by(self, weights: Tensor) -> Tensor:
        """(B, T, d), summing to the departure: what was missed is spread in proportion to weights (B, T, d) >= 0."""
        total = weights.flatten(1).sum(1)
        share = torch.where(total > 0, self.missed / total.clamp(min=1e-30), torch.zeros_like(total))
        return self.integrals + share[:, None, None] * weights

    def rows(self, index: Tensor) -> PathAttributions:
        return PathAttributions(
            self.integrals[index],
            self.missed[index],
            self.magnitude[index],
            self.remainder[index],
            self.by_operator[:, index],
        )


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
    integrals = _weighted(departure, by_operator)
    missed = wanted - integrals.flatten(1).sum(1)
    return PathAttributions(integrals, missed, magnitude, missed.abs() / scale, by_operator)


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
