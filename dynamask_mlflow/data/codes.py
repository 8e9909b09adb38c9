"""The codes of a feature set for one source, as arrays that a stream of events is checked against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.features import FeatureSet


@dataclass(frozen=True, eq=False)
class CodeTable:
    """One row a code: where it comes from, which channel it feeds, what is valid and how it is converted."""

    codes: tuple[int | str, ...]
    tables: tuple[str, ...]
    units: tuple[tuple[str, ...], ...]
    channel: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    scale: NDArray[np.float64]
    offset: NDArray[np.float64]
    missing: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.codes)

    def of_table(self, table: str) -> tuple[int | str, ...]:
        return tuple(code for code, home in zip(self.codes, self.tables, strict=True) if home == table)

    def only(self, channel: int) -> CodeTable:
        """The codes of one channel."""
        rows = np.flatnonzero(self.channel == channel)
        arrays: dict[str, Any] = {
            name: getattr(self, name)[rows] for name in ("channel", "low", "high", "scale", "offset", "missing")
        }
        texts: dict[str, Any] = {
            name: tuple(getattr(self, name)[row] for row in rows) for name in ("codes", "tables", "units")
        }
        return CodeTable(**texts, **arrays)


def flatten(features: FeatureSet, lists: Mapping[str, str]) -> CodeTable:
    """The codes of `features` in some of its code lists; `lists` maps each to the table it is found in."""
    rows = [
        (code, lists[name], group, index)
        for index, channel in enumerate(features.channels)
        for group in channel.groups
        for name, codes in group.codes.items()
        if name in lists
        for code in codes
    ]
    groups = [group for _, _, group, _ in rows]
    return CodeTable(
        codes=tuple(code for code, _, _, _ in rows),
        tables=tuple(table for _, table, _, _ in rows),
        units=tuple(group.units for group in groups),
        channel=np.array([index for _, _, _, index in rows], dtype=np.int64),
        low=np.array([group.low for group in groups], dtype=np.float64),
        high=np.array([group.high for group in groups], dtype=np.float64),
        scale=np.array([group.scale for group in groups], dtype=np.float64),
        offset=np.array([group.offset for group in groups], dtype=np.float64),
        missing=np.array([group.missing[0] if group.missing else np.nan for group in groups], dtype=np.float64),
    )


def expand(table: CodeTable, found: Mapping[int | str, Sequence[str]], home: str) -> CodeTable:
    """Replace each code by the spellings under which a source records it (some with the unit in it)."""
    rows = [(row, spelled) for row, code in enumerate(table.codes) for spelled in found.get(code, ())]
    index = np.array([row for row, _ in rows], dtype=np.int64)
    return CodeTable(
        codes=tuple(spelled for _, spelled in rows),
        tables=(home,) * len(rows),
        units=tuple(table.units[row] for row, _ in rows),
        channel=table.channel[index],
        low=table.low[index],
        high=table.high[index],
        scale=table.scale[index],
        offset=table.offset[index],
        missing=table.missing[index],
    )


def spelling(unit: str) -> str:
    """Units compare without case, spaces and degree signs: "Deg. F", "°F" and "?F" are one unit."""
    lowered = unit.lower().replace("deg.", "").replace("deg", "")
    return "".join(character for character in lowered if character.isalnum() or character in "%/")
