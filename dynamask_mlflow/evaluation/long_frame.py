"""Tidy tables to sequences: one row for each id and time, or one for each id, time and channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences

if TYPE_CHECKING:
    import pandas as pd

FILLS = ("error", "forward")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the columns of a tidy table are; see `mlflow.data.from_long_frame`."""

    id: str
    time: str
    channels: Sequence[str] | str
    values: str | None = None
    targets: str | None = None
    targets_per_step: bool = False


def sequences_from_long_frame(df: pd.DataFrame, columns: Columns, fill: str | float = "error") -> Sequences:
    """Align a tidy table on the grid of all its times. See `mlflow.data.from_long_frame`."""
    id, time, channels, values, targets = columns.id, columns.time, columns.channels, columns.values, columns.targets
    wanted = [id, time, *([channels] if isinstance(channels, str) else channels)]
    wanted += [name for name in (values, targets) if name is not None]
    missing = [name for name in wanted if name not in df.columns]
    if missing:
        raise ValueError(f"Expected columns {wanted}, but {missing} are not among {list(df.columns)}.")
    if df.empty:
        raise ValueError("Expected a table with at least one row, but got none.")
    for name in (id, time):
        gaps = int(df[name].isna().sum())
        if gaps:
            raise ValueError(f"Expected a value of {name!r} in every row, but {gaps} are missing.")
    if isinstance(fill, str) and fill not in FILLS:
        raise ValueError(f"Expected fill to be a number or one of {FILLS}, but got {fill!r}.")

    wide = _wide(df, id, time, channels, values)
    ids, times = df[id].drop_duplicates().tolist(), sorted(df[time].unique())
    names = [str(name) for name in wide.columns]
    n, steps = len(ids), len(times)
    row = wide.index.get_level_values(0).map({value: i for i, value in enumerate(ids)}).to_numpy()
    column = wide.index.get_level_values(1).map({value: i for i, value in enumerate(times)}).to_numpy()
    x = np.full((n, steps, len(names)), np.nan, dtype=np.float32)
    x[row, column] = wide.to_numpy(dtype=np.float32, na_value=np.nan)
    lengths = np.zeros(n, dtype=np.int64)
    np.maximum.at(lengths, row, column + 1)

    observed = np.isfinite(x)
    inside = (np.arange(steps) < lengths[:, None])[:, :, None]
    if not (observed | ~inside).all() and fill != "error":
        x = _filled(x, fill)
    labels = None if targets is None else _targets(df, columns, targets, ids, times)
    return as_sequences(
        x,
        targets=labels,
        ids=ids,
        channel_names=names,
        times=[str(t) if hasattr(t, "isoformat") else t for t in times],
        lengths=lengths,
        observed=None if (observed | ~inside).all() else observed,
    )


def _wide(df: pd.DataFrame, id: str, time: str, channels: Sequence[str] | str, values: str | None) -> pd.DataFrame:
    """One row for each (id, time), one column for each channel."""
    if isinstance(channels, str) and values is None:
        channels = [channels]
    keys = [id, time] if not isinstance(channels, str) else [id, time, channels]
    repeated = df.duplicated(keys)
    if repeated.any():
        first = df.loc[repeated, keys].iloc[0].to_dict()
        raise ValueError(
            f"Expected one row for each {keys}, but {int(repeated.sum())} are repeated, the first {first}."
        )
    if isinstance(channels, str):
        return df.pivot(index=[id, time], columns=channels, values=values)
    if not len(channels):
        raise ValueError("Expected at least one channel, but got none.")
    return df.set_index([id, time])[list(channels)]


def _filled(x: np.ndarray[Any, np.dtype[np.float32]], fill: str | float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Missing cells by a number, or by the last value seen and, before any was seen, the channel's mean."""
    if not isinstance(fill, str):
        return np.where(np.isfinite(x), x, np.float32(fill))
    seen = np.isfinite(x)
    last = np.maximum.accumulate(np.where(seen, np.arange(x.shape[1])[None, :, None], -1), axis=1)
    carried = np.take_along_axis(x, np.maximum(last, 0), axis=1)
    counts = seen.sum(axis=(0, 1))
    mean = np.where(seen, x, 0).sum(axis=(0, 1), dtype=np.float64) / np.maximum(counts, 1)
    return np.where(last >= 0, carried, mean.astype(np.float32))


def _targets(df: pd.DataFrame, columns: Columns, targets: str, ids: list[Any], times: list[Any]) -> Any:
    id, time = columns.id, columns.time
    if columns.targets_per_step:
        table = df.drop_duplicates([id, time]).pivot(index=id, columns=time, values=targets)
        return table.reindex(index=ids, columns=times).to_numpy()
    several = df.groupby(id, sort=False)[targets].nunique(dropna=False)
    if (several > 1).any():
        culprit = several.index[several > 1][0]
        raise ValueError(
            f"Expected one value of {targets!r} for each {id!r}, "
            f"but {culprit!r} has {int(several[culprit])}. Pass targets_per_step=True for "
            "targets that change with time."
        )
    return df.drop_duplicates(id).set_index(id)[targets].reindex(ids).to_numpy()
