"""Choosing cells by score and replacing them: the steps before a prediction can be compared."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow._ranking import count_of, places
from dynamask_mlflow.metrics._arrays import BoolArray, FloatArray, as_cells, as_selection, flatten_cells

Scope = Literal["instance", "batch"]


def mask_from_scores(scores: ArrayLike, where: ArrayLike | None = None) -> FloatArray:
    """The appendix's mask of any saliency method: M = (R - r_min) / (r_max - r_min), for each instance.

    The paper divides by r_max, which leaves [0, 1] unless r_min = 0: a misprint. Constant scores give
    zeros, and so do cells that do not exist (`where` False), which take no part in r_min and r_max either.

    Example:
        >>> mask_from_scores([[1.0, 3.0], [2.0, 5.0]])
        array([[0.  , 0.5 ],
               [0.25, 1.  ]])
    """
    r = as_cells(scores, "scores")
    exists = as_selection(where, r.shape, "where")
    # A power of two first: the span of two huge scores would overflow, that of two of the smallest would be 0.
    largest = np.where(exists, np.abs(r), 0.0).max(axis=(-2, -1), keepdims=True)
    r = np.ldexp(np.where(exists, r, 0.0), -np.frexp(largest)[1])
    low = np.where(exists, r, np.inf).min(axis=(-2, -1), keepdims=True)
    high = np.where(exists, r, -np.inf).max(axis=(-2, -1), keepdims=True)
    varies = exists & (high > low)
    span = np.where(high > low, high - low, 1.0)
    scaled = np.where(varies, r - np.where(np.isfinite(low), low, 0.0), 0.0) / span
    return np.clip(scaled, 0.0, 1.0)


def top_cells(scores: ArrayLike, area: float, where: ArrayLike | None = None, scope: Scope = "instance") -> BoolArray:
    """The round(area n) existing cells with the highest scores; of equal ones the earlier come first.

    `scope` says over what n counts: each instance by itself, or the whole batch, where an instance with
    higher scores gives more cells than another.

    Example:
        >>> top_cells([[0.1, 0.9], [0.9, 0.5]], area=0.5)
        array([[False,  True],
               [ True, False]])
    """
    r = as_cells(scores, "scores")
    if not 0 <= area <= 1:
        raise ValueError(f"Expected area in [0, 1], but got {area}.")
    if scope not in ("instance", "batch"):
        raise ValueError(f"Expected scope 'instance' or 'batch', but got {scope!r}.")
    exists = as_selection(where, r.shape, "where")
    rows, there = flatten_cells(r), flatten_cells(exists)
    if scope == "batch":
        rows, there = rows.reshape(-1), there.reshape(-1)
    counts = count_of(area, there.sum(axis=-1))
    return (places(rows, there) < counts[..., None]).reshape(r.shape)


def replace_cells(
    x: ArrayLike,
    cells: ArrayLike,
    baseline: ArrayLike | Literal["time_mean", "zero"] = "time_mean",
    observed: ArrayLike | None = None,
) -> NDArray[Any]:
    """x with `cells` replaced by each channel's mean over time, by zero, or by an array that broadcasts.

    Example:
        >>> replace_cells([[1.0], [5.0]], [[True], [False]], baseline="zero")
        array([[0.],
               [5.]])
    """
    if isinstance(baseline, str):
        if baseline == "time_mean":
            return replace_by_time_mean(x, cells, observed)
        if baseline != "zero":
            raise ValueError(f"Expected baseline 'time_mean', 'zero' or an array, but got {baseline!r}.")
        baseline = 0.0
    values = as_cells(x, "x")
    replaced = np.where(as_selection(cells, values.shape, "cells"), np.asarray(baseline), values)
    return replaced.astype(_floating(x))


def replace_by_time_mean(x: ArrayLike, cells: ArrayLike, observed: ArrayLike | None = None) -> NDArray[Any]:
    """x with `cells` replaced by the time average of their channel: x_ti -> 1/T sum_t x_ti (section 3.3).

    Only observed values enter the average; a channel that was never observed has none, and keeps its values.

    Example:
        >>> replace_by_time_mean([[1.0], [5.0]], [[True], [False]])
        array([[3.],
               [5.]])
    """
    values = as_cells(x, "x")
    chosen = as_selection(cells, values.shape, "cells")
    seen = as_selection(observed, values.shape, "observed")
    count = seen.sum(axis=-2, keepdims=True)
    mean = np.where(seen, values, 0.0).sum(axis=-2, keepdims=True) / np.maximum(count, 1)
    return np.where(chosen & (count > 0), mean, values).astype(_floating(x))


def _floating(x: ArrayLike) -> np.dtype[Any]:
    dtype = np.asarray(x).dtype
    return dtype if np.issubdtype(dtype, np.floating) else np.dtype(np.float64)


def random_masks(shape: tuple[int, ...], area: float, seed: int, where: ArrayLike | None = None) -> NDArray[np.float32]:
    """Binary masks of round(area n) cells drawn uniformly for each instance: what to be better than.

    Example:
        >>> random_masks((2, 4, 3), area=0.25, seed=0).sum(axis=(1, 2))
        array([3., 3.], dtype=float32)
    """
    scores = np.random.default_rng(seed).random(shape)
    return top_cells(scores, area, where).astype(np.float32)
