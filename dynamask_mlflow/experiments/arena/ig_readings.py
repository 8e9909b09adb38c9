"""Integrated gradients in eight readings, the yardstick of the arena.

What counts as the attribution of a cell is open in three ways: the baseline (zero, or the channel's mean over time),
the sign (as it is, or its size), and smoothing over time (none, or a Gaussian of two steps). The best of the eight is
picked for each row afterwards, by the truth itself: no single reading does as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamask_mlflow.masks.adapted_model import Model
from dynamask_mlflow.masks.black_box import frozen

BASELINES = ("zero", "mean")
SIGNS = ("signed", "absolute")
WIDTHS = (0, 2)
LEVELS = 40


def ig_readings(
    model: Model,
    x: NDArray[np.float32],
    task: str,
    lengths: NDArray[np.int64] | None = None,
    levels: int = LEVELS,
) -> Mapping[str, NDArray[np.float64]]:
    """Reading -> scores (N, T, d). Padding, where `lengths` tells of any, is never replaced and scores lowest."""
    inputs = torch.from_numpy(np.asarray(x, dtype=np.float32))
    exists = np.ones(x.shape, dtype=np.bool_)
    if lengths is not None:
        exists &= (np.arange(x.shape[1])[None] < lengths[:, None])[..., None]
    readings = {}
    for baseline in BASELINES:
        start = torch.where(torch.from_numpy(exists), _baseline(inputs, exists, baseline), inputs)
        signed = integrated_gradients(model, inputs, start, task, levels)
        for sign, width in product(SIGNS, WIDTHS):
            scores = smooth(np.abs(signed) if sign == "absolute" else signed, width, exists)
            readings[f"{baseline}-{sign}-{width}"] = np.where(exists, scores, scores.min() - 1)
    return readings


def target(out: Tensor, chosen: Tensor, task: str) -> Tensor:
    """(B,) what is explained: the logit of the chosen class minus the mean of the others, or the value by itself.

    Answers at several steps are summed. A single logit is that of class 1 against a logit of 0.
    """
    if task == "regression":
        return out.flatten(1).sum(1) if out.ndim > 1 else out
    logits = two_sided(out)
    kept = logits.gather(-1, chosen[..., None])[..., 0]
    others = (logits.sum(-1) - kept) / (logits.shape[-1] - 1)
    return (kept - others).flatten(1).sum(1) if kept.ndim > 1 else kept - others


def two_sided(out: Tensor) -> Tensor:
    """Logits of at least two classes."""
    if out.ndim == 1 or out.shape[-1] == 1:
        single = out.reshape(-1, 1)
        return torch.cat([torch.zeros_like(single), single], -1)
    return out


def integrated_gradients(model: Model, x: Tensor, start: Tensor, task: str, levels: int) -> NDArray[np.float64]:
    """(x - start) times the mean gradient of the target at the middles of `levels` equal steps from start to x."""
    with frozen(model, torch.device("cpu")):
        with torch.no_grad():
            chosen = two_sided(model(x)).argmax(-1)
        total = torch.zeros_like(x)
        for level in range(levels):
            z = (start + (level + 0.5) / levels * (x - start)).detach().requires_grad_()
            (gradient,) = torch.autograd.grad(target(model(z), chosen, task).sum(), z)
            total += gradient
    return np.asarray(((x - start) * total / levels).numpy(), dtype=np.float64)


def _baseline(x: Tensor, exists: NDArray[np.bool_], name: str) -> Tensor:
    if name == "zero":
        return torch.zeros_like(x)
    present = torch.from_numpy(exists).to(x)
    return ((x * present).sum(1, keepdim=True) / present.sum(1, keepdim=True)).expand_as(x)


def smooth(values: NDArray[Any], width: float, exists: NDArray[np.bool_]) -> NDArray[np.float64]:
    """A Gaussian mean over time of standard deviation `width`, over existing cells."""
    if width == 0:
        return np.asarray(values, dtype=np.float64)
    steps = np.arange(values.shape[1])
    kernel = np.exp(-0.5 * np.square((steps[:, None] - steps) / width))
    kernel[np.abs(steps[:, None] - steps) > 4 * width] = 0.0
    total = np.einsum("ts,nsd->ntd", kernel, values * exists)
    return np.asarray(total / np.maximum(np.einsum("ts,nsd->ntd", kernel, exists.astype(np.float64)), 1e-12))
