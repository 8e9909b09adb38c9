"""Rankings of the cells: from scores to places, to whole cells, and to the mask of every size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


def top_cells(scores: Tensor, area: float, exists: Tensor | None = None) -> Tensor:
    """(B, T, d): 1 for the best share `area` of the cells, at least one, and for all that tie with the last of them."""
    z = scores.flatten(1)
    most = max(1, math.ceil(area * z.shape[1]))
    if exists is None:
        least = z.topk(most, dim=1).values[:, -1:]
        return (z >= least).to(z.dtype).view_as(scores)
    present = exists.flatten(1)
    z = z.masked_fill(~present, float("-inf"))
    number = (area * present.sum(1, keepdim=True)).ceil().clamp(min=1, max=most).long()
    least = z.topk(most, dim=1).values.gather(1, number - 1)
    return ((z >= least) & present).to(z.dtype).view_as(scores)


def top_share(scores: Tensor, area: float, exists: Tensor | None) -> Tensor:
    """(B, T, d) of 0 and 1: the share `area` of the existing cells with the highest scores.

    The rule of `_ranking.py` for tensors: of equal scores the earlier come first, halves are rounded up.
    """
    flat = scores.flatten(1)
    there = torch.ones_like(flat, dtype=torch.bool) if exists is None else exists.flatten(1)
    order = torch.where(there, flat, -torch.inf).argsort(dim=1, descending=True, stable=True)
    counts = (area * there.sum(1, keepdim=True) + 0.5).floor()
    ranks = torch.arange(flat.shape[1], device=flat.device).expand_as(flat)
    chosen = torch.zeros_like(flat).scatter_(1, order, (ranks < counts).to(flat.dtype))
    return chosen.view_as(scores)


@dataclass(frozen=True)
class Order:
    """An ordering of the cells, best first, and the exact mask of every area.

    Attributes:
        above: (B, T, d) how many cells are better. ties: how many are equally good, the cell itself included.
        number: (B,) cells that exist. exists: (B, T, d) or None.
    """

    above: Tensor
    ties: Tensor
    number: Tensor
    exists: Tensor | None

    @classmethod
    def of(cls, scores: Tensor, exists: Tensor | None = None) -> Order:
        z = scores.flatten(1)
        if exists is not None:
            z = z.masked_fill(~exists.flatten(1), float("-inf"))
        size = z.shape[1]
        ordered, cell = z.sort(1, descending=True)
        place = torch.arange(size, device=z.device, dtype=z.dtype).expand_as(z)
        differs = ordered[:, 1:] != ordered[:, :-1]
        first, last = F.pad(differs, (1, 0), value=True), F.pad(differs, (0, 1), value=True)
        group = first.cumsum(1) - 1

        def of_group(values: Tensor, where: Tensor) -> Tensor:
            """The value at the one place of each group that is marked, for all of the group."""
            kept = values.new_zeros(len(values), size + 1).scatter_(1, torch.where(where, group, size), values)
            return kept.gather(1, group)

        start, end = of_group(place, first), of_group(place + 1, last)
        above, ties = (torch.empty_like(z).scatter_(1, cell, values) for values in (start, end - start))
        number = torch.full_like(z[:, 0], size) if exists is None else exists.flatten(1).sum(1).to(z.dtype)
        return cls(above.view_as(scores), ties.view_as(scores), number.clamp(min=1), exists)

    def rows(self, index: Tensor) -> Order:
        exists = None if self.exists is None else self.exists[index]
        return Order(self.above[index], self.ties[index], self.number[index], exists)

    def with_rows(self, index: Tensor, other: Order) -> Order:
        """This ordering, with some of its instances taken from another."""
        above, ties = self.above.index_copy(0, index, other.above), self.ties.index_copy(0, index, other.ties)
        return Order(above, ties, self.number, self.exists)

    def where(self, condition: Tensor, other: Order) -> Order:
        """This ordering for the instances of the condition (B,), another for the rest."""
        mine = condition[:, None, None]
        above, ties = torch.where(mine, self.above, other.above), torch.where(mine, self.ties, other.ties)
        return Order(above, ties, self.number, self.exists)

    def first(self, size: float | Tensor) -> Tensor:
        """The mask (B, T, d) of the `size` best cells, one number or (B,)."""
        count = size if isinstance(size, Tensor) else torch.full_like(self.number, size)
        return self.mask(count / self.number)

    def whole(self, number: Tensor) -> Tensor:
        """(B, T, d) of 0 and 1: exactly `number` cells (B,); of cells that tie the earlier come first."""
        cell = self.above.flatten(1).argsort(dim=1, stable=True)
        place = torch.arange(cell.shape[1], device=cell.device).expand_as(cell)
        chosen = torch.zeros_like(self.above).flatten(1)
        return chosen.scatter_(1, cell, (place < number[:, None]).to(chosen.dtype)).view_as(self.above)

    def mask(self, area: Tensor) -> Tensor:
        """The best share `area` (B,) of the cells: 1, 0, and an equal share for cells that tie at the edge."""
        room = (area * self.number)[:, None, None] - self.above
        mask = (room / self.ties).clamp(min=0, max=1)
        return mask if self.exists is None else mask * self.exists

    def entry(self) -> Tensor:
        """(B, T, d) in (0, 1): the area at which a cell enters, ties together, by the middle of their places."""
        return (self.above + self.ties / 2) / self.number[:, None, None]


def entry_order(scores: Tensor, exists: Tensor | None = None) -> Tensor:
    """(B, T, d) in [0, 1]: one minus the area at which a cell enters the mask; equal scores enter together."""
    return (1 - Order.of(scores, exists).entry()).clamp(min=0, max=1)


def handed_out(values: Tensor, order: Order) -> Tensor:
    """The values of each instance, handed out anew so that they never rise along the ordering."""
    place = order.above.flatten(1).argsort(dim=1, stable=True)
    ordered = values.flatten(1).sort(1, descending=True).values
    return torch.empty_like(ordered).scatter_(1, place, ordered).view_as(values)
