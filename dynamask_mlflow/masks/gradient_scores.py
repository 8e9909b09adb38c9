"""Scores of the cells from their attributions, at several scales of time at once."""

from __future__ import annotations

from torch import Tensor

from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.smoothing import explained_by_neighbours, smooth_in_time

WIDTHS = (1.0, 2.0, 4.0, 8.0)
# Weight of the cell itself; each width counts by the variance that neighbours explain at it.
OWN_WEIGHT = 0.1
# Cells that speak against the departure count by half. A value, such as a forecast, has no side that is asked about:
# what lowered it and what raised it count alike.
AGAINST, AGAINST_OF_VALUES = 0.5, 1.0


def gradient_scores(
    attributions: Tensor, variation: Tensor, weights: Tensor, exists: Tensor | None = None, against: float = AGAINST
) -> Tensor:
    """(B, T, d) >= 0: how much a cell and its neighbours in time contribute to the departure.

    Attributions a are heavy-tailed, so r is the mean over baselines of sign(a) sqrt|a|: a cell that one baseline alone
    makes much of counts less than one on which they agree. A cell may speak for the departure on one part of the way
    from the baseline and against it on another (it interacts with others, as in an exclusive or), and a is small. What
    cancels so, (variation - |a|) / 2, is added to the size of r.

    At each width the score has two terms: the size of the smoothed r, large where neighbours agree in sign, and the
    smoothed size of r, large where they do not. A width counts by how well neighbours explain a cell there:
    single-cell events are not smoothed, ramps and plateaus are.

    Args:
        attributions: (O, B, T, d) under each baseline, in the direction of the departure.
        variation: (O, B, T, d) the integral of |gradient| where attributions have that of the gradient.
        weights: (O, B) of the baselines, summing to 1.
        against: what cells against the departure count, beside those for it.
    """
    share = weights[:, :, None, None]
    signed_root = added_up(share * attributions.sign() * attributions.abs().sqrt())
    cancelled = added_up(share * (variation - attributions.abs()).clamp(min=0) / 2)
    by_neighbours = explained_by_neighbours(signed_root.abs(), WIDTHS, exists)
    size = (_size(signed_root, against).square() + cancelled).sqrt()
    total = 2 * OWN_WEIGHT * size
    for width, weight in zip(WIDTHS, by_neighbours, strict=True):
        agreeing = _size(smooth_in_time(signed_root, width, exists, ends=True), against)
        total = total + weight[:, None, None] * (agreeing + smooth_in_time(size, width, exists, ends=True))
    return total


def _size(values: Tensor, against: float) -> Tensor:
    """|v| of cells that speak for the departure, `against` |v| of the others."""
    return values.clamp(min=0) - against * values.clamp(max=0)
