"""Signed attributions: the gradient of the target score, integrated from each baseline to the input.

Along M = alpha, from 0 to 1, the score moves from the baseline's to the input's, and
integral of sum_i (d score / d m_i) d alpha = score - baseline score: attributions sum to the departure. For a fade
this is Integrated Gradients with that baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.gradient_scores import gradient_scores

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
        remainder: (B,) the share of the departure that the levels missed.
        by_operator: (O, B, T, d) under each baseline alone.
        variation: (O, B, T, d) the integral of |gradient| under each baseline alone.
        usable: (O, B) the usable baselines whose gradients are finite; the others take no part.
        weights: (O, B) what each baseline counts.
    """

    integrals: Tensor
    missed: Tensor
    remainder: Tensor
    by_operator: Tensor
    variation: Tensor
    usable: Tensor
    weights: Tensor

    @property
    def magnitude(self) -> Tensor:
        """(B, T, d): |gradient| along all ways, 0 for cells that the model does not read."""
        return added_up(self.variation)

    def scores(self, exists: Tensor | None) -> Tensor:
        """(B, T, d), see `gradient_scores`."""
        return gradient_scores(self.by_operator, self.variation, self.weights, exists)

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
            self.remainder[index],
            self.by_operator[:, index],
            self.variation[:, index],
            self.usable[:, index],
            self.weights[:, index],
        )


def path_attributions(departure: Departure, levels: int) -> PathAttributions:
    """Integrate with `levels` levels, and with more where the sum does not come out."""
    by_operator, variation, finite = _integrate(departure, levels)
    departure = replace(departure, usable=departure.usable & finite)
    wanted = added_up(departure.weights * departure.gap)
    scale = torch.maximum(wanted.abs(), departure.reach * 0.1).clamp(min=1e-12)
    missed = wanted - _weighted(departure, by_operator).flatten(1).sum(1)
    rows = departure.rows_where((missed.abs() > TOLERANCE * scale) & ~departure.negligible)
    if rows is not None and len(rows):
        finer, size, _ = _integrate(departure.rows(rows), MORE_LEVELS)
        by_operator, variation = by_operator.index_copy(1, rows, finer), variation.index_copy(1, rows, size)
    integrals = _weighted(departure, by_operator)
    missed = wanted - integrals.flatten(1).sum(1)
    remainder = missed.abs() / scale
    return PathAttributions(integrals, missed, remainder, by_operator, variation, departure.usable, departure.weights)


def _weighted(departure: Departure, by_operator: Tensor) -> Tensor:
    return added_up(departure.weights[:, :, None, None] * by_operator)


def _integrate(departure: Departure, levels: int) -> tuple[Tensor, Tensor, Tensor]:
    """The integral of the gradient under each baseline and that of its size, (O, B, T, d), and whether it is finite."""
    integrals, variations, all_finite = [], [], []
    for operator in range(len(departure.perturbations)):
        integral, variation = torch.zeros_like(departure.batch.x), torch.zeros_like(departure.batch.x)
        finite = torch.ones_like(departure.score, dtype=torch.bool)
        for level in range(levels):
            mask = torch.full_like(integral, (level + 0.5) / levels)
            gradient = departure.raw_gradient_under(mask, operator)
            known = torch.isfinite(gradient)
            finite = finite & known.flatten(1).all(1)
            gradient = torch.where(known, gradient, torch.zeros_like(gradient))
            integral += gradient / levels
            variation += gradient.abs() / levels
        integrals.append(integral)
        variations.append(variation)
        all_finite.append(finite)
    return torch.stack(integrals), torch.stack(variations), torch.stack(all_finite)
