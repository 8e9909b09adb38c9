"""Averages and spreads of a channel over time, of the cells that exist."""

from __future__ import annotations

import torch
from torch import Tensor

_MAD_TO_DEVIATION = 1.4826


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
    steps = x.shape[1]
    if exists is None:
        return x.sort(1).values[:, (steps - 1) // 2 : (steps - 1) // 2 + 1]
    count = exists.sum(1, keepdim=True)
    ordered = x.masked_fill(~exists, torch.inf).sort(1).values
    return torch.where(count > 0, ordered.gather(1, ((count - 1) // 2).clamp(min=0)), 0.0)


def robust_spread(x: Tensor, exists: Tensor | None) -> tuple[Tensor, Tensor]:
    """(B, 1, d) each: the median of a channel, and 1.4826 times the median absolute deviation from it."""
    median = time_median(x, exists)
    return median, _MAD_TO_DEVIATION * time_median((x - median).abs(), exists)
