"""Soft masks of a given area from one score a cell, for fits by descent (nested masks)."""

from __future__ import annotations

import torch
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


def score_gradient(gradient: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """dL/dZ from dL/dM. The threshold moves with the scores so that the area stays: the mean shift drops out."""
    flat = gradient.flatten(1)
    weight = (mask * (1 - mask)).flatten(1) / temperature
    mean = (weight * flat).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1e-12)
    return (weight * (flat - mean)).view_as(gradient)
