"""Checks that every metric shares: arrays of cells (..., T, d), truth and existence of the cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def as_cells(values: ArrayLike, name: str) -> FloatArray:
    """Finite numbers of shape (..., T, d): one matrix of cells, or any number of them."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim < 2:
        raise ValueError(f"Expected {name} of shape (T, d) or (N, T, d), but got {array.shape}.")
    return finite(array, name)


def finite(array: FloatArray, name: str) -> FloatArray:
    """The array itself, if it holds nothing but finite numbers."""
    if not np.isfinite(array).all():
        raise ValueError(f"Expected finite {name}, but got {int((~np.isfinite(array)).sum())} values that are not.")
    return array


def as_mask(values: ArrayLike, name: str = "mask") -> FloatArray:
    """Cells whose values lie in [0, 1]."""
    array = as_cells(values, name)
    if array.size and (array.min() < 0 or array.max() > 1):
        raise ValueError(f"Expected {name} values in [0, 1], but got [{array.min():g}, {array.max():g}].")
    return array


def as_selection(values: ArrayLike | None, shape: tuple[int, ...], name: str) -> BoolArray:
    """A boolean (or 0/1) array that broadcasts to `shape`; None selects every cell."""
    if values is None:
        return np.ones(shape, dtype=np.bool_)
    array: NDArray[Any] = np.asarray(values)
    if array.dtype != np.bool_:
        if not np.isin(array, (0, 1)).all():
            raise ValueError(f"Expected {name} to be boolean or to hold only 0 and 1, but got {array.dtype} values.")
        array = array.astype(np.bool_)
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"Expected {name} to broadcast to {shape}, but got {array.shape}.") from None


def flatten_cells(array: NDArray[Any]) -> NDArray[Any]:
    """(..., T, d) to (..., T d), in time-major order."""
    return array.reshape(*array.shape[:-2], array.shape[-2] * array.shape[-1])


def ratio(numerator: NDArray[Any], denominator: NDArray[Any]) -> FloatArray:
    """Quotient, nan where the denominator is 0."""
    out = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), np.nan)
    np.divide(numerator, denominator, out=out, where=denominator != 0)
    return out
