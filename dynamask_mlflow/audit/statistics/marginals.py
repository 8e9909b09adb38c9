"""Where each instance's mask looks: its mass as shares by channel and by time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._ranking import places

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Labels = NDArray[np.uint8]


def shares(masks: NDArray[np.floating[Any]], eligible: Bools | None = None) -> tuple[Floats, Floats]:
    """p_i = sum_t m_i[t, :] / sum m_i and h_i = sum_c m_i[:, c] / sum m_i of each instance.

    Args:
        masks: (N, T, d), not negative.
        eligible: (N, T, d) cells that count; None for all.

    Returns:
        (N, d) and (N, T). Rows of a mask without mass are NaN: it looks nowhere.
    """
    if masks.ndim != 3:
        raise ValueError(f"Expected masks of shape (N, T, d), but got {masks.shape}.")
    mass = masks.astype(np.float64) if eligible is None else np.where(eligible, masks, 0.0).astype(np.float64)
    total = mass.sum(axis=(1, 2))[:, None]
    unit = np.where(total > 0, total, np.nan)
    return mass.sum(axis=1) / unit, mass.sum(axis=2) / unit


def in_blocks(by_time: Floats, size: int) -> Floats:
    """(N, T) summed over blocks of `size` steps: (N, ceil(T / size))."""
    if size < 1:
        raise ValueError(f"Expected blocks of at least 1 step, but got {size}.")
    return np.add.reduceat(by_time, np.arange(0, by_time.shape[1], size), axis=1)


def attention(scores: NDArray[np.floating[Any]], area: float, eligible: Bools | None = None) -> Floats:
    """w = max(0, ln(area / a)), where a is the area at which a cell enters the nested masks: (N, T, d).

    That is the mean of the masks of all areas up to `area`, equally weighted on a logarithmic scale. The mask at one
    chosen area may hold a dozen cells, and its shares jump from stay to stay; these are steady, and so need far fewer
    stays to prove that nothing moved.
    """
    if not 0 < area <= 1:
        raise ValueError(f"Expected area in (0, 1], but got {area}.")
    n = len(scores)
    flat = scores.reshape(n, -1)
    exists = np.ones(flat.shape, dtype=bool) if eligible is None else eligible.reshape(n, -1)
    count = np.maximum(exists.sum(axis=1, keepdims=True), 1)
    entered = (places(flat, exists) + 0.5) / count
    weights = np.maximum(0.0, np.log(area / entered))
    return np.where(exists, weights, 0.0).reshape(scores.shape)
