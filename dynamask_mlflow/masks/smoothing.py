"""Averages along time, and how well neighbours in time tell a cell."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def smooth_in_time(
    values: Tensor, width: float, exists: Tensor | None = None, *, ends: bool = False, reach: float = 4.0
) -> Tensor:
    """Gaussian average of (B, T, d) along time over the cells that exist; width 0 changes nothing.

    `ends`: before the first and after the last step there are zeros, rather than no cells. The average of the last step
    then is not raised by a high neighbour for want of others. The Gaussian is cut at `reach` widths.
    """
    if width == 0:
        return values
    kernel = _gaussian(values, width, reach)
    present = torch.ones_like(values[:1]) if exists is None else exists.to(values.dtype)
    weight = kernel.sum() - _convolve(1 - present, kernel) if ends else _convolve(present, kernel)
    return _convolve(values * present, kernel) / weight.clamp(min=1e-6)


def explained_by_neighbours(values: Tensor, widths: tuple[float, ...], exists: Tensor | None = None) -> Tensor:
    """(K, B) in [0, 1]: the share of the variance around the channels' means that neighbours in time explain.

    A cell is predicted, leave-one-out, by the Gaussian average of its neighbours, and by the mean of its channel:
    1 - (squared error of the first) / (squared error of the second), 0 where neighbours predict worse. Events of
    one step have 0, events of many steps come near 1 at the width that suits them.
    """
    present = torch.ones_like(values) if exists is None else exists.to(values.dtype)
    shown = values * present
    others = (present.sum(1, keepdim=True) - present).clamp(min=1)
    by_mean = _squared_error(values, (shown.sum(1, keepdim=True) - shown) / others, present)
    shares = []
    for width in widths:
        kernel = _gaussian(values, width)
        kernel[..., kernel.shape[-1] // 2] = 0
        by_neighbours = _convolve(shown, kernel) / _convolve(present, kernel).clamp(min=1e-6)
        shares.append(1 - _squared_error(values, by_neighbours, present) / by_mean.clamp(min=1e-30))
    return torch.stack(shares).clamp(min=0)


def persists_in_time(values: Tensor, exists: Tensor | None = None) -> Tensor:
    """(B,): whether the mean of a cell's two neighbours predicts it better than the mean of its channel does."""
    between = (values[:, :-2] + values[:, 2:]) / 2
    present = torch.ones_like(values) if exists is None else exists.to(values.dtype)
    mean = (values * present).sum(1, keepdim=True) / present.sum(1, keepdim=True).clamp(min=1)
    inner, all_three = values[:, 1:-1], present[:, :-2] * present[:, 1:-1] * present[:, 2:]
    return _squared_error(inner, between, all_three) < _squared_error(inner, mean, all_three)


def _squared_error(values: Tensor, prediction: Tensor, weights: Tensor) -> Tensor:
    return ((values - prediction).square() * weights).flatten(1).sum(1)


def _gaussian(values: Tensor, width: float, reach: float = 4.0) -> Tensor:
    steps = min(values.shape[1] - 1, math.ceil(reach * width))
    offset = torch.arange(-steps, steps + 1, device=values.device, dtype=values.dtype)
    return torch.exp(-0.5 * (offset / width).square())[None, None]


def _convolve(values: Tensor, kernel: Tensor) -> Tensor:
    size, steps, channels = values.shape
    series = values.transpose(1, 2).reshape(-1, 1, steps)
    padded = F.conv1d(series, kernel, padding=kernel.shape[-1] // 2)
    return padded.view(size, channels, steps).transpose(1, 2)
