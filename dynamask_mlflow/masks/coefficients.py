"""Coefficients: the probability that a cell is salient, and the mask of whole cells that follows from them.

logit P(salient) is linear in three quantities that depend neither on T and d nor on the task. Their weights are the
logistic regression of planted truth on them, over the arena's choosing seeds and its families that are not held out:
`dynamask-mlflow experiment coefficients`.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace

import torch
from torch import Tensor

from dynamask_mlflow.masks.mask_size import SizeCurves
from dynamask_mlflow.masks.ranking import Order, handed_out


@dataclass(frozen=True)
class CoefficientWeights:
    """Weights of the logistic regression.

    Attributes:
        beyond_half: of log2(rank / size), size that of the first cells that hold half of the departure.
        relative_score: of ln(g / mean g of the first cells that hold .8 of it), g the gradient score.
        other_ordering: instead of the relative score, where segments or the nested fit made the ordering.
    """

    intercept: float = 3.281
    beyond_half: float = -1.017
    relative_score: float = 2.750
    other_ordering: float = -3.117

    def of_features(self) -> tuple[float, ...]:
        return astuple(self)[1:]


WEIGHTS = CoefficientWeights()
# The same regression on the orderings of `forward_search`, whose score stands in for the gradient score.
FORWARD_WEIGHTS = CoefficientWeights(intercept=1.779, beyond_half=-0.813, relative_score=1.669)
_HALF, _MOST = 0.5, 0.8


def coefficients(
    order: Order,
    curves: SizeCurves,
    gradient_score: Tensor,
    by_gradients: Tensor,
    unread: Tensor,
    weights: CoefficientWeights = WEIGHTS,
) -> Tensor:
    """(B, T, d) in [0, 1], never rising along the ordering, 0 for cells that the model does not read.

    Args:
        gradient_score: (B, T, d) >= 0.
        by_gradients: (B,) whether the ordering is that of the gradient scores.
        unread: (B, T, d) cells whose gradient is 0 throughout.
    """
    logit = torch.full_like(gradient_score, weights.intercept)
    features = cell_features(order, curves, gradient_score, by_gradients)
    for weight, feature in zip(weights.of_features(), features, strict=True):
        logit = logit + weight * feature
    chance = torch.where(unread, torch.zeros_like(logit), torch.sigmoid(logit))
    read_first = replace(order, above=torch.where(unread, torch.full_like(logit, math.inf), order.above))
    return handed_out(chance, read_first)


def cell_features(order: Order, curves: SizeCurves, gradient_score: Tensor, by_gradients: Tensor) -> Tensor:
    """(F, B, T, d): what the coefficients depend on, in the order of the fields of `CoefficientWeights`."""
    held = _rising((curves.kept + curves.lost) / 2)
    places = [math.log2(size) for size in curves.sizes]
    half, most = (_crossing(held, places, share) for share in (_HALF, _MOST))
    rank = torch.log2(order.above + (order.ties + 1) / 2)
    relative = torch.log(gradient_score / _mean_of_first(gradient_score, most) + 1e-4)
    trusted = by_gradients.to(rank.dtype)[:, None, None]
    return torch.stack(
        [
            rank - half[:, None, None],
            trusted * relative,
            (1 - trusted).expand_as(rank),
        ]
    )


def best_cut(coefficients: Tensor) -> Tensor:
    """(B, T, d) of 0 and 1: the cells of greatest expected F1 under the coefficients themselves.

    With k cells, E[F1] is about 2 (sum of their coefficients) / (k + sum of all coefficients).
    """
    flat = coefficients.flatten(1)
    ordered = flat.sort(1, descending=True).values
    gained = ordered.cumsum(1)
    count = torch.arange(1, flat.shape[1] + 1, device=flat.device, dtype=flat.dtype)
    expected = 2 * gained / (count + gained[:, -1:])
    least = ordered.gather(1, expected.argmax(1, keepdim=True))
    return ((flat >= least) & (flat > 0)).to(flat.dtype).view_as(coefficients)


def _rising(curve: Tensor) -> Tensor:
    """(K, B): the largest value so far."""
    rows = [curve[0]]
    for row in curve[1:]:
        rows.append(torch.maximum(rows[-1], row))
    return torch.stack(rows)


def _crossing(curve: Tensor, places: list[float], share: float) -> Tensor:
    """(B,): the place at which a rising curve first reaches a share, linear between places; 0 if it starts there."""
    found = torch.zeros_like(curve[0])
    for k in range(1, len(places)):
        rise = (curve[k] - curve[k - 1]).clamp(min=1e-9)
        at = places[k - 1] + (share - curve[k - 1]) / rise * (places[k] - places[k - 1])
        found = torch.where((curve[k - 1] < share) & (curve[k] >= share), at, found)
    return found


def _mean_of_first(scores: Tensor, log_size: Tensor) -> Tensor:
    """(B, 1, 1): the mean of the 2 ** log_size largest scores."""
    ordered = scores.flatten(1).sort(1, descending=True).values
    size = torch.pow(2.0, log_size)[:, None].round().clamp(min=1, max=ordered.shape[1])
    total = ordered.cumsum(1).gather(1, size.long() - 1)
    return (total / size).clamp(min=1e-30)[:, :, None]
