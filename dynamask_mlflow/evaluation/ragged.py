"""One array out of sequences of unequal lengths, whichever library holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Padded:
    """x (N, T, d) with zeros after each sequence's end, the lengths (N,), and the channels' names where known."""

    x: NDArray[Any]
    lengths: NDArray[np.int64]
    channel_names: tuple[str, ...] | None = None


def padded(collection: Any) -> Padded | None:
    """One array out of a collection of sequences; None where the collection is no such thing.

    Args:
        collection: a list of arrays (T_i, d); a list of series as darts has them (`values()` and `components`); or a
            nested table as sktime has them: a row an instance, a column a channel, a series in each cell.
    """
    names = None
    if hasattr(collection, "columns") and hasattr(collection, "iloc"):
        names = tuple(str(name) for name in collection.columns)
        rows = [collection.iloc[row] for row in range(len(collection))]
        if any(np.ndim(cell) == 0 for row in rows[:1] for cell in row):
            return None
        collection = [_from_columns([np.asarray(cell) for cell in row], place) for place, row in enumerate(rows)]
    if not isinstance(collection, list | tuple) or not collection:
        return None
    if all(callable(getattr(each, "values", None)) and hasattr(each, "components") for each in collection):
        names = tuple(str(name) for name in collection[0].components)
        collection = [each.values() for each in collection]
    arrays = [np.asarray(each) for each in collection]
    if any(array.dtype == object for array in arrays):
        return None
    if names is None and len({array.shape for array in arrays}) == 1:
        return None
    arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
    widths = sorted({array.shape[1:] for array in arrays})
    if len(widths) > 1 or any(array.ndim != 2 for array in arrays):
        raise ValueError(
            f"Expected sequences of shape (T_i, d) with one number of channels d, but got shapes that end in {widths}."
        )
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    return Padded(_stacked(arrays), lengths, names)


def padded_like(values: Any, lengths: NDArray[np.int64]) -> NDArray[Any]:
    """A list of arrays that belong to sequences of these lengths, padded as these are; anything else as it is."""
    if not isinstance(values, list | tuple) or len(values) != len(lengths):
        return np.asarray(values)
    arrays = [np.asarray(each) for each in values]
    if all(array.ndim and len(array) == length for array, length in zip(arrays, lengths, strict=True)):
        return _stacked(arrays)
    return np.asarray(values)


def _stacked(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    steps = max(len(array) for array in arrays)
    x = np.zeros((len(arrays), steps, *arrays[0].shape[1:]), dtype=np.result_type(*arrays))
    for row, array in enumerate(arrays):
        x[row, : len(array)] = array
    return x


def _from_columns(columns: list[NDArray[Any]], row: int) -> NDArray[Any]:
    if len({len(column) for column in columns}) > 1:
        raise ValueError(
            f"Expected all channels of an instance to be of one length, but row {row} has "
            f"{[len(column) for column in columns]}."
        )
    return np.stack(columns, axis=1)
