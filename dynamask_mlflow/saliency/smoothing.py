"""Scores smoothed over time: what is salient rarely is so for one step alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def smooth_over_time(scores: Tensor, exists: Tensor | None, sigma: float = 2.0) -> Tensor:
    """sum_s g(t - s) r_si / sum_s g(t - s) over the steps s at which channel i exists, g Gaussian, cut at 3 sigma."""
    weights = torch.ones_like(scores) if exists is None else exists.to(scores.dtype)
    values = scores * weights
    total, count = values.clone(), weights.clone()
    for k in range(1, min(scores.shape[1] - 1, math.ceil(3 * sigma)) + 1):
        g = math.exp(-0.5 * (k / sigma) ** 2)
        for later, earlier in ((slice(k, None), slice(None, -k)), (slice(None, -k), slice(k, None))):
            total[:, later] += g * values[:, earlier]
            count[:, later] += g * weights[:, earlier]
    return torch.where(count > 0, total / count.clamp(min=1e-12), scores)
