"""The columns of a model that takes a table: which of them is which cell of a sequence, which a further input."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TableColumns:
    """Columns in the order of the model.

    Attributes:
        names, dtypes: of all columns.
        cells: for each column its place t d + i in a window, -1 for a further input.
        by_name: the names give the places; else the columns stand as x does.
    """

    names: tuple[str, ...]
    dtypes: Mapping[str, Any]
    cells: NDArray[np.intp]
    by_name: bool

    @property
    def others(self) -> tuple[str, ...]:
        """Columns that are no cells of a sequence, such as an age."""
        return tuple(name for name, place in zip(self.names, self.cells, strict=True) if place < 0)

    @classmethod
    def of(cls, specs: Sequence[Any], channels: Sequence[str], shape: tuple[int, int]) -> TableColumns | None:
        """The columns of a signature; None where they cannot be the cells of sequences of `shape` (T, d)."""
        names = [str(spec.name) for spec in specs]
        places = column_places(names, channels, shape)
        if places is None:
            return None
        dtypes = {str(spec.name): spec.type.to_numpy() for spec in specs if hasattr(spec.type, "to_numpy")}
        by_name = all(
            _cell(name, channels) is not None for name, place in zip(names, places, strict=True) if place >= 0
        )
        return cls(tuple(names), dtypes, places, by_name)

    def table(self, given: Mapping[str, NDArray[Any]], *, channels_first: bool = False) -> Any:
        """The table of x (B, T, d), or (B, d, T), and of further inputs by name, (B,) or (B, 1)."""
        import pandas as pd

        x = given["x"].transpose(0, 2, 1) if channels_first and self.by_name else given["x"]
        rows = x.reshape(len(x), -1)
        columns = {
            name: rows[:, place] if place >= 0 else np.asarray(given[name]).reshape(len(rows))
            for name, place in zip(self.names, self.cells, strict=True)
        }
        return pd.DataFrame(columns).astype(self.dtypes)


def column_places(names: Sequence[str], channels: Sequence[str], shape: tuple[int, int]) -> NDArray[np.intp] | None:
    """Places t d + i of columns by names that hold a channel's name and a step, -1 for those that are no cells.

    Columns whose names say nothing stand time by time, if there are just T d. None where neither holds.

    Example:
        >>> column_places(["HR_0", "HR_1", "BP_0", "BP_1", "age"], ["HR", "BP"], (2, 2)).tolist()
        [0, 2, 1, 3, -1]
    """
    steps, width = shape
    found = [_cell(name, channels) for name in names]
    times = [cell[0] for cell in found if cell is not None]
    first = min(times, default=0)
    places = np.array([-1 if cell is None else (cell[0] - first) * width + cell[1] for cell in found], dtype=np.intp)
    if len(channels) == width and sorted(places[places >= 0].tolist()) == list(range(steps * width)):
        return places
    return np.arange(len(names)) if len(names) == steps * width else None


def _cell(name: str, channels: Sequence[str]) -> tuple[int, int] | None:
    """(step, channel) in a column's name: the longest channel name in it, and the one number beside it."""
    inside = [channel for channel in channels if str(channel) in name]
    channel = max(inside, key=lambda each: len(str(each)), default=None)
    if channel is None:
        return None
    numbers = re.findall(r"\d+", name.replace(str(channel), " ", 1))
    return (int(numbers[0]), list(channels).index(channel)) if len(numbers) == 1 else None
