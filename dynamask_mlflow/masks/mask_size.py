"""Insertion and deletion curves of an ordering: how much of the departure its first 1, 4, 16, ... cells hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.ranking import Order

# Sizes grow by this factor from one cell on.
RATIO = 4


@dataclass(frozen=True)
class SizeCurves:
    """How much of the departure the first cells of an ordering hold.

    Attributes:
        sizes: K numbers of cells, from 1 on, each RATIO times the one before; the last is all cells.
        kept: (K, B) the share of the departure that the first cells keep alone, in [0, 1].
        lost: (K, B) the share that is lost when they are removed, in [0, 1].
    """

    sizes: tuple[int, ...]
    kept: Tensor
    lost: Tensor

    def kept_at(self, size: Tensor) -> Tensor:
        """(B,): `kept` at any size (B,), linear in the logarithm of the size."""
        place = torch.log2(size.clamp(min=1))
        places = [math.log2(each) for each in self.sizes]
        kept = self.kept[0]
        for k in range(1, len(places)):
            share = ((place - places[k - 1]) / (places[k] - places[k - 1])).clamp(0, 1)
            kept = kept.lerp(self.kept[k], share)
        return kept


def curve_sizes(cells: int) -> list[int]:
    sizes, size = [], 1
    while size < cells:
        sizes.append(size)
        size *= RATIO
    return [*sizes, cells]


def held_shares(departure: Departure, order: Order, sizes: Sequence[int]) -> Tensor:
    """(2, K, B) in [-1, 1]: what the first cells of an ordering keep alone, and what is lost without them."""
    masks = [order.first(size) for size in sizes]
    if not masks:
        return order.number.new_zeros(2, 0, len(order.number))
    return torch.stack(departure.kept_and_lost(masks, masks))


def size_curves(departures: list[Departure], order: Order, known: Tensor | None = None) -> SizeCurves:
    """Measure both curves under each of the departures, and average by their strength.

    Args:
        departures: under one baseline each; the first two are used.
        known: (2, K, B) what is known already of the first departure: `held_shares` at the first K sizes.
    """
    used = departures[:2]
    strength = torch.stack([departure.gap.amax(0).clamp(min=0) for departure in used])
    weights = strength / strength.sum(0).clamp(min=1e-12)
    weights = torch.where(strength.sum(0) > 0, weights, torch.full_like(weights, 1 / len(used)))
    sizes = curve_sizes(order.above[0].numel())
    shares = [_completed(departure, order, sizes[:-1], known if k == 0 else None) for k, departure in enumerate(used)]
    kept, lost = added_up(weights[:, None, None] * torch.stack(shares))
    whole = torch.ones_like(kept[:1])
    return SizeCurves(tuple(sizes), torch.cat([kept, whole]).clamp(0, 1), torch.cat([lost, whole]).clamp(0, 1))


def _completed(departure: Departure, order: Order, sizes: Sequence[int], known: Tensor | None) -> Tensor:
    """(2, K, B): `held_shares`, of which the first sizes may be known."""
    done = 0 if known is None else min(known.shape[1], len(sizes))
    rest = held_shares(departure, order, sizes[done:])
    return rest if known is None else torch.cat([known[:, :done], rest], 1)
