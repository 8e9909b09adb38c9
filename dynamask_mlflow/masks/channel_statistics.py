"""Averages and spreads of a channel over time, of the cells that exist."""

from __future__ import annotations

import torch
from torch import Tensor

# Standard deviations of a normal distribution over the median, and over the upper quartile, of |x - median|.
_BY_MEDIAN, _BY_QUARTILE = 1.4826, 0.8693


def windowed_mean(x: Tensor, weights: Tensor, before: int, after: int) -> Tensor:
    """Mean over [t - before, t + after] of the cells that exist, by prefix sums; x itself where none does."""
    steps = x.shape[1]
    # Centring keeps the prefix sums small, so that float32 suffices for long series.
    centre = (x * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp(min=1)
    pad = torch.zeros_like(x[:, :1])
    sums = torch.cat([pad, ((x - centre) * weights).cumsum(1)], 1)
    counts = torch.cat([pad, weights.cumsum(1)], 1)
    time = torch.arange(steps, device=x.device)
    high = (time + after + 1).clamp(max=steps)
    low = (time - before).clamp(min=0)
    count = counts[:, high] - counts[:, low]
    mean = (sums[:, high] - sums[:, low]) / count.clamp(min=1) + centre
    return torch.where(count > 0, mean, x)


def time_median(x: Tensor, exists: Tensor | None) -> Tensor:
    """(B, 1, d): the lower median of the cells that exist, 0 for a channel without any."""
    return _quartile(x, exists, 2)


def _quartile(x: Tensor, exists: Tensor | None, number: int) -> Tensor:
    """(B, 1, d): the lower quartile of this number (2 the median) over time; 0 for a channel without cells."""
    if exists is None:
        place = number * (x.shape[1] - 1) // 4
        return x.sort(1).values[:, place : place + 1]
    count = exists.sum(1, keepdim=True)
    ordered = x.masked_fill(~exists, torch.inf).sort(1).values
    return torch.where(count > 0, ordered.gather(1, (number * (count - 1) // 4).clamp(min=0)), 0.0)


def robust_spread(x: Tensor, exists: Tensor | None) -> tuple[Tensor, Tensor]:
    """(B, 1, d) each: the median of a channel, and 1.4826 times the median absolute deviation from it."""
    median = time_median(x, exists)
    return median, _BY_MEDIAN * time_median((x - median).abs(), exists)


def background_spread(x: Tensor, exists: Tensor | None) -> tuple[Tensor, Tensor]:
    """(B, 1, d) each: the median of a channel, and the standard deviation of its background.

    The deviation is .8693 times the upper quartile of |x - median|: events in less than a quarter of the steps do not
    widen it, and a quiet stretch in less than half of them hardly narrows it.
    """
    median = time_median(x, exists)
    return median, _BY_QUARTILE * _quartile((x - median).abs(), exists, 3)
