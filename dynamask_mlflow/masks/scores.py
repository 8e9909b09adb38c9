"""From scores to masks: one score a cell holds a mask for every area (nested masks)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_SOLVER_STEPS = 14


def mask_at(scores: Tensor, area: Tensor, temperature: float, exists: Tensor | None = None) -> Tensor:
    """M_a = sigmoid((Z - q_a) / temperature), with q_a such that the mask's mean is the area.

    The search for q_a takes a fixed number of steps, so that nothing waits for the device: it ends within about a
    cell.
    Masks of growing area are nested, and cells of equal score get equal shares.

    Args:
        scores: Z (B, T, d).
        area: (B,) share of the existing cells.
        temperature: the smaller, the more binary the mask.
        exists: (B, T, d); other cells get 0.
    """
    z = scores.flatten(1) / temperature
    target = area[:, None]
    weight = None
    number = z.new_full((len(z), 1), float(z.shape[1]))
    mean = z.mean(1, keepdim=True)
    if exists is not None:
        weight = exists.flatten(1).to(z.dtype)
        number = weight.sum(1, keepdim=True).clamp(min=1)
        mean = (z * weight).sum(1, keepdim=True) / number
        z = torch.where(exists.flatten(1), z, mean)
    low, high = z.amin(1, keepdim=True) - 16, z.amax(1, keepdim=True) + 16
    # Exact for equal scores, and close wherever the temperature is high.
    threshold = mean - torch.logit(target, eps=1e-6)
    threshold = torch.minimum(torch.maximum(threshold, low), high)
    for _ in range(_SOLVER_STEPS):
        mask = torch.sigmoid(z - threshold)
        if weight is not None:
            mask = mask * weight
        excess = mask.sum(1, keepdim=True) / number - target
        low, high = torch.where(excess > 0, threshold, low), torch.where(excess > 0, high, threshold)
        slope = torch.addcmul(mask, mask, mask, value=-1).sum(1, keepdim=True) / number
        newton = threshold + excess / slope.clamp(min=1e-9)
        threshold = torch.where((newton > low) & (newton < high), newton, (low + high) / 2)
    mask = torch.sigmoid(z - threshold)
    if weight is not None:
        mask = mask * weight
    return mask.view_as(scores)


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


def score_gradient(gradient: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """dL/dZ from dL/dM. The threshold moves with the scores so that the area stays: the mean shift drops out."""
    flat = gradient.flatten(1)
    weight = (mask * (1 - mask)).flatten(1) / temperature
    mean = (weight * flat).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1e-12)
    return (weight * (flat - mean)).view_as(gradient)


def smooth_in_time(scores: Tensor, width: float, exists: Tensor | None = None, *, ends: bool = False) -> Tensor:
    """Gaussian average along time over the cells that exist; width 0 changes nothing.

    `ends`: before the first and after the last step there is nothing, rather than no cells. The average of the last
    step then is not lifted by a high neighbour for want of others.
    """
    if width == 0:
        return scores
    _, steps, channels = scores.shape
    reach = min(steps - 1, math.ceil(4 * width))
    offset = torch.arange(-reach, reach + 1, device=scores.device, dtype=scores.dtype)
    kernel = torch.exp(-0.5 * (offset / width).square())[None, None]

    def convolve(values: Tensor) -> Tensor:
        series = values.transpose(1, 2).reshape(-1, 1, steps)
        return F.conv1d(series, kernel, padding=reach).view(-1, channels, steps).transpose(1, 2)

    present = torch.ones_like(scores[:1]) if exists is None else exists.to(scores.dtype)
    weight = kernel.sum() - convolve(1 - present) if ends else convolve(present)
    return convolve(scores * present) / weight.clamp(min=1e-6)


def persists_in_time(values: Tensor, exists: Tensor | None = None) -> Tensor:
    """(B,): whether the mean of a cell's two neighbours in time foretells it better than its channel's mean does.

    Of values without memory the neighbours are the worse prophets, by half.
    """
    between = (values[:, :-2] + values[:, 2:]) / 2
    whole = torch.ones_like(values) if exists is None else exists.to(values.dtype)
    mean = (values * whole).sum(1, keepdim=True) / whole.sum(1, keepdim=True).clamp(min=1)
    inner, seen = values[:, 1:-1], whole[:, :-2] * whole[:, 1:-1] * whole[:, 2:]
    by_neighbours, by_mean = (((guess - inner).square() * seen).flatten(1).sum(1) for guess in (between, mean))
    return by_neighbours < by_mean


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
