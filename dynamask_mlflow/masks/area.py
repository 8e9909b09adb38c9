"""The choice of area: a given share, the best, the extremal, or the automatic rule that needs no prior knowledge."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

_STEEPER = 0.1
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


def falling_price(area: Tensor, scale: float) -> Tensor:
    """scale ln(1 + a / .003), until one more unit of area costs 2; then 2 for each.

    Of one answer background cells always buy a little. With a scale of .15 the first cells of a mask therefore pay 50
    times their share of the distance; the more cells there are, the less one more has to buy, down to twice its share.
    """
    first, least = 0.003, 2.0
    turn = scale / least - first
    few = torch.log1p(area.clamp(max=turn) / first) * scale
    return few + least * (area - turn).clamp(min=0)


def thrifty_area(
    areas: Tensor, distances: Tensor, price: float = 1.0, curve: Curve | None = None, zooms: int = 0
) -> tuple[Tensor, Tensor]:
    """a* = argmin r(a) + price a: a cell must buy more than `price` times its share 1/n of the distance.

    Args:
        areas: (B, A) in ascending order, about equally spaced on a logarithmic scale.
        distances: (B, A) r at those areas.
        price: of a cell, in cells' shares of the distance.
        curve: evaluates r elsewhere, for the zooms.
        zooms: how often the spacing is halved around the best area.

    Returns:
        (B,) the area and (B,) r(a*) + price a*.
    """
    cost = distances + price * areas
    index = cost.argmin(1, keepdim=True)
    area, best = areas.gather(1, index), cost.gather(1, index)
    ratio = (areas[:, -1:] / areas[:, :1]) ** (1 / max(1, areas.shape[1] - 1))
    for _ in range(zooms if curve is not None else 0):
        ratio = ratio.sqrt()
        nearby = torch.cat([area / ratio, (area * ratio).clamp(max=1)], 1)
        assert curve is not None
        candidates = torch.cat([area, nearby], 1)
        costs = torch.cat([best, curve(nearby) + price * nearby], 1)
        index = costs.argmin(1, keepdim=True)
        area, best = candidates.gather(1, index), costs.gather(1, index)
    return area[:, 0], best[:, 0]


def knee_area(areas: Tensor, costs: Tensor, cost_of: Curve, looks: int) -> Tensor:
    """(B,) the area of least cost, on a curve that falls steeply before its minimum and climbs gently after it.

    Each look goes halfway, on a logarithmic scale, from the best area so far to its cheaper neighbour; the smaller one
    may cost a little more, since the curve is steeper there.

    Args:
        areas, costs: (B, A), in ascending order of the areas.
        cost_of: the cost elsewhere.
        looks: how many more areas are tried.
    """
    for _ in range(looks):
        index = costs.argmin(1, keepdim=True)
        fenced = F.pad(costs, (1, 1), value=float("inf"))
        smaller = fenced.gather(1, index) < fenced.gather(1, index + 2) + _STEEPER
        neighbour = torch.where(smaller, index - 1, index + 1).clamp(min=0, max=areas.shape[1] - 1)
        between = (areas.gather(1, index) * areas.gather(1, neighbour)).sqrt()
        areas, order = torch.cat([areas, between], 1).sort(1)
        costs = torch.cat([costs, cost_of(between)], 1).gather(1, order)
    return best_area(areas, costs)


def window_around(areas: Tensor, costs: Tensor, before: int, after: int) -> Tensor:
    """(B, before + 1 + after): the places of the areas about the one of least cost."""
    number = min(before + 1 + after, areas.shape[1])
    first = (costs.argmin(1, keepdim=True) - before).clamp(min=0, max=areas.shape[1] - number)
    return first + torch.arange(number, device=areas.device)


def log_grid(low: float, high: float, number: int) -> tuple[float, ...]:
    """`number` areas, equally spaced on a logarithmic scale."""
    if number == 1:
        return (low,)
    step = math.log(high / low) / (number - 1)
    return tuple(low * math.exp(step * k) for k in range(number))
