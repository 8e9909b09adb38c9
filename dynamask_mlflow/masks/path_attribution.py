"""Signed attributions: the gradient of the target score, integrated from each baseline to the input.

Along M = alpha, from 0 to 1, the score moves from the baseline's to the input's, and
integral of sum_i (d score / d m_i) d alpha = score - baseline score: attributions sum to the departure. For a fade
this is Integrated Gradients with that baseline.

Along that way all cells fade in together, so each is seen in one company only. For the ordering, gradients are also
taken under random masks, in which some cells are whole already where others have not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.gradient_scores import AGAINST, gradient_scores

LEVELS, FAST_LEVELS = 4, 3
# Random masks under each baseline. A coefficient is 2 alpha + .5 minus a uniform draw of [0, 2], clamped to [0, 1].
RANDOM_MASKS, FAST_RANDOM_MASKS = 6, 3
_RANDOM_STEP = 5003
# Where the sum misses the departure by more than this share of it, the integral is taken again with more levels, and
# so many times the random masks are drawn: the network jumps, and few masks meet the jump. These levels are evenly
# spaced, since a quadrature for smooth functions has no advantage there and leaves wider gaps.
TOLERANCE = 0.1
MORE_LEVELS, MORE_TIMES = 24, 4


MaskAt = Callable[[Departure, float, int], Tensor]
"""Makes the mask (B, T, d) of a level in (0, 1); the last argument numbers the draws."""


@dataclass(frozen=True)
class PathAttributions:
    """Attributions of a batch, in the direction of the departure.

    Attributes:
        integrals: (B, T, d), summing to the departure less what the levels missed of it.
        missed: (B,) that.
        remainder: (B,) the share of the departure that the levels missed.
        by_operator: (O, B, T, d) under each baseline alone.
        gradients: (O, B, T, d) under each baseline alone, the mean gradient under even and random masks.
        variation: (O, B, T, d) the mean of |gradient| under the same masks.
        usable: (O, B) the usable baselines whose gradients are finite; the others take no part.
        weights: (O, B) what each baseline counts.
    """

    integrals: Tensor
    missed: Tensor
    remainder: Tensor
    by_operator: Tensor
    gradients: Tensor
    variation: Tensor
    usable: Tensor
    weights: Tensor

    @property
    def magnitude(self) -> Tensor:
        """(B, T, d): |gradient| under all masks, 0 for cells that the model does not read."""
        return added_up(self.variation)

    def scores(self, exists: Tensor | None, against: float = AGAINST) -> Tensor:
        """(B, T, d), see `gradient_scores`."""
        return gradient_scores(self.gradients, self.variation, self.weights, exists, against)

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
            self.gradients[:, index],
            self.variation[:, index],
            self.usable[:, index],
            self.weights[:, index],
        )


def path_attributions(departure: Departure, levels: int, random_masks: int) -> PathAttributions:
    """Integrate with `levels` levels, with more where the sum does not come out, and look at random masks."""
    # An operator that is no fade, such as a blur, need not be smooth in the mask.
    even = gauss_legendre(levels) if departure.fades else midpoints(2 * levels)
    by_operator, size, finite = _mean_gradients(departure, even, _even_mask)
    at_random, variation, also_finite = _mean_gradients(departure, midpoints(random_masks), _random_mask)
    departure = replace(departure, usable=departure.usable & finite & also_finite)
    wanted = added_up(departure.weights * departure.gap)
    scale = torch.maximum(wanted.abs(), departure.reach * 0.1).clamp(min=1e-12)
    missed = wanted - _weighted(departure, by_operator).flatten(1).sum(1)
    rows = departure.rows_where((missed.abs() > TOLERANCE * scale) & ~departure.negligible)
    if rows is not None and len(rows):
        part = departure.rows(rows)
        finer = _mean_gradients(part, midpoints(MORE_LEVELS), _even_mask)
        more = _mean_gradients(part, midpoints(MORE_TIMES * random_masks), _random_mask)
        by_operator, size = by_operator.index_copy(1, rows, finer[0]), size.index_copy(1, rows, finer[1])
        at_random, variation = at_random.index_copy(1, rows, more[0]), variation.index_copy(1, rows, more[1])
    integrals = _weighted(departure, by_operator)
    missed = wanted - integrals.flatten(1).sum(1)
    return PathAttributions(
        integrals,
        missed,
        missed.abs() / scale,
        by_operator,
        (by_operator + at_random) / 2,
        (size + variation) / 2,
        departure.usable,
        departure.weights,
    )


def _weighted(departure: Departure, by_operator: Tensor) -> Tensor:
    return added_up(departure.weights[:, :, None, None] * by_operator)


def _even_mask(departure: Departure, alpha: float, draw: int) -> Tensor:
    return torch.full_like(departure.batch.x, alpha)


def _random_mask(departure: Departure, alpha: float, draw: int) -> Tensor:
    late = 2 * departure.batch.draws.uniform(_RANDOM_STEP + draw)
    return (2 * alpha + 0.5 - late).clamp(0, 1).to(departure.batch.x.dtype).expand_as(departure.batch.x)


Levels = list[tuple[float, float]]
"""Levels in (0, 1) with their weights, which sum to 1."""


def gauss_legendre(number: int) -> Levels:
    """Levels and weights of the quadrature that is exact for polynomials of degree 2 number - 1.

    >>> [(round(level, 3), round(weight, 3)) for level, weight in gauss_legendre(2)]
    [(0.211, 0.5), (0.789, 0.5)]
    """
    places, weights = np.polynomial.legendre.leggauss(number)
    return [(float(place + 1) / 2, float(weight) / 2) for place, weight in zip(places, weights, strict=True)]


def midpoints(number: int) -> Levels:
    """Levels in the middle of as many equal parts.

    >>> midpoints(2)
    [(0.25, 0.5), (0.75, 0.5)]
    """
    return [((level + 0.5) / number, 1 / number) for level in range(number)]


def _mean_gradients(departure: Departure, levels: Levels, mask_at: MaskAt) -> tuple[Tensor, Tensor, Tensor]:
    """The mean gradient and the mean of its size under each baseline, (O, B, T, d), and whether it is finite (O, B).

    The means are over one mask a level.
    """
    means, sizes, all_finite = [], [], []
    operators = range(len(departure.perturbations))
    asked = (
        (mask_at(departure, level, operator * len(levels) + place), operator)
        for operator in operators
        for place, (level, _) in enumerate(levels)
    )
    gradients = departure.raw_gradients_under(asked)
    for _ in operators:
        mean, size = torch.zeros_like(departure.batch.x), torch.zeros_like(departure.batch.x)
        finite = torch.ones_like(departure.score, dtype=torch.bool)
        for _, weight in levels:
            gradient = next(gradients)
            known = torch.isfinite(gradient)
            finite = finite & known.flatten(1).all(1)
            gradient = torch.where(known, gradient, torch.zeros_like(gradient))
            mean += weight * gradient
            size += weight * gradient.abs()
        means.append(mean)
        sizes.append(size)
        all_finite.append(finite)
    return torch.stack(means), torch.stack(sizes), torch.stack(all_finite)
