"""The choice of area: a given share, the best, the extremal, or the automatic rule that needs no prior knowledge."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

DEFAULT_AREAS = (0.0025, 0.006, 0.015, 0.04, 0.1, 0.25, 0.6)

Curve = Callable[[Tensor], Tensor]
"""Takes areas (B, A), returns the distance at each (B, A)."""


def best_area(areas: Tensor, distances: Tensor) -> Tensor:
    """(B,) the area of the smallest error; the smaller area where errors are equal."""
    return areas.gather(1, distances.argmin(1, keepdim=True))[:, 0]


def extremal_area(areas: Tensor, errors: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """a* = min {a : error(a) < epsilon}, and whether no area of the grid reached it (then the largest is taken)."""
    reached = errors < epsilon
    first = reached.to(torch.int8).argmax(1, keepdim=True)
    missed = ~reached.any(1)
    last = torch.full_like(first, areas.shape[1] - 1)
    return areas.gather(1, torch.where(missed[:, None], last, first))[:, 0], missed


def penalized_area(
    areas: Tensor, distances: Tensor, penalty: float = 1.0, curve: Curve | None = None, zooms: int = 0
) -> tuple[Tensor, Tensor]:
    """a* = argmin r(a) + penalty a: a cell must buy more than `penalty` times its share 1/n of the distance.

    Args:
        areas: (B, A) in ascending order, about equally spaced on a logarithmic scale.
        distances: (B, A) r at those areas.
        penalty: of a cell, in cells' shares of the distance.
        curve: evaluates r elsewhere, for the zooms.
        zooms: how often the spacing is halved around the best area.

    Returns:
        (B,) the area and (B,) r(a*) + penalty a*.
    """
    cost = distances + penalty * areas
    index = cost.argmin(1, keepdim=True)
    area, best = areas.gather(1, index), cost.gather(1, index)
    ratio = (areas[:, -1:] / areas[:, :1]) ** (1 / max(1, areas.shape[1] - 1))
    for _ in range(zooms if curve is not None else 0):
        ratio = ratio.sqrt()
        nearby = torch.cat([area / ratio, (area * ratio).clamp(max=1)], 1)
        assert curve is not None
        candidates = torch.cat([area, nearby], 1)
        costs = torch.cat([best, curve(nearby) + penalty * nearby], 1)
        index = costs.argmin(1, keepdim=True)
        area, best = candidates.gather(1, index), costs.gather(1, index)
    return area[:, 0], best[:, 0]


def log_grid(low: float, high: float, number: int) -> tuple[float, ...]:
    """`number` areas, equally spaced on a logarithmic scale."""
    if number == 1:
        return (low,)
    step = math.log(high / low) / (number - 1)
    return tuple(low * math.exp(step * k) for k in range(number))
