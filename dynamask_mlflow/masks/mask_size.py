"""Insertion and deletion curves of an ordering: how much of the departure its first 1, 4, 16, ... cells hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.ranking import Order

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


def size_curves(departures: list[Departure], order: Order) -> SizeCurves:
    """Measure both curves under each of the departures, and average by their strength.

    Args:
        departures: under one baseline each; the first two are used.
    """
    used = departures[:2]
    strength = torch.stack([departure.gap.amax(0).clamp(min=0) for departure in used])
    weights = strength / strength.sum(0).clamp(min=1e-12)
    weights = torch.where(strength.sum(0) > 0, weights, torch.full_like(weights, 1 / len(used)))
    sizes = curve_sizes(order.above[0].numel())
    kept, lost = [], []
    for size in sizes[:-1]:
        mask = order.first(size)
        kept.append(sum(w * departure.kept(mask) for w, departure in zip(weights, used, strict=True)))
        lost.append(sum(w * departure.lost(mask) for w, departure in zip(weights, used, strict=True)))
    whole = torch.ones_like(order.number)
    return SizeCurves(
        tuple(sizes),
        torch.stack([*kept, whole]).clamp(0, 1),
        torch.stack([*lost, whole]).clamp(0, 1),
    )
