"""Tidy tables to sequences: one row for each id and time, or one for each id, time and channel."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamask_mlflow._logs import say
from dynamask_mlflow._npz import max_size
from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences

if TYPE_CHECKING:
    import pandas as pd

FILLS = ("error", "forward")
SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
_DAY_OR_MONTH_FIRST = re.compile(r"^\s*\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
_TWELVE_HOURS = re.compile(r"\d\s*[ap]\.?m\b", re.IGNORECASE)
_ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:|$)"
_SPARSE = 0.1  # share of the cells: a table with fewer is hardly meant for one grid of times


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the columns of a tidy table are; see `mlflow.data.from_long_frame`."""

    id: str
    time: str
    channels: Sequence[str] | str
    values: str | None = None
    targets: str | None = None
    targets_per_step: bool = False
    since_start: str | None = None


def sequences_from_long_frame(df: pd.DataFrame, columns: Columns, fill: str | float = "error") -> Sequences:
    """Align a tidy table on the grid of all its times. See `mlflow.data.from_long_frame`."""
    id, time, channels, values, targets = columns.id, columns.time, columns.channels, columns.values, columns.targets
    wanted = [id, time, *([channels] if isinstance(channels, str) else channels)]
    wanted += [name for name in (values, targets) if name is not None]
    if not hasattr(df, "columns"):
        raise ValueError(f"Expected a table (pandas.DataFrame), but got {type(df).__name__}.")
    if not set(wanted) <= set(df.columns) and set(wanted) <= {*df.columns, *df.index.names}:
        df = df.reset_index()
    absent = [name for name in wanted if name not in df.columns]
    if absent:
        raise ValueError(f"Expected columns {wanted}, but {absent} are not among {list(df.columns)}.")
    if df.empty:
        raise ValueError("Expected a table with at least one row, but got none.")
    for name in (id, time):
        gaps = int(df[name].isna().sum())
        if gaps:
            raise ValueError(f"Expected a value of {name!r} in every row, but {gaps} are missing.")
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"Expected different columns for id, time, channels, values and targets, but got {wanted}.")
    if isinstance(fill, bool) or (isinstance(fill, str) and fill not in FILLS):
        raise ValueError(f"Expected fill to be a number or one of {FILLS}, but got {fill!r}.")
    df = _numbers_of_texts(df, time, sorts=columns.since_start is None)
    if columns.since_start is not None:
        df = df.assign(**{time: _since_start(df, id, time, columns.since_start)})

    wide = _wide(df, id, time, channels, values)
    ids, times = df[id].drop_duplicates().tolist(), _sorted_times(df, time)
    names = [str(name) for name in wide.columns]
    row = wide.index.get_level_values(0).map({value: i for i, value in enumerate(ids)}).to_numpy()
    column = wide.index.get_level_values(1).map({value: i for i, value in enumerate(times)}).to_numpy()
    lengths = np.zeros(len(ids), dtype=np.int64)
    np.maximum.at(lengths, row, column + 1)
    _check_grid(len(wide), lengths, (len(ids), len(times), len(names)), columns)
    x = np.full((len(ids), len(times), len(names)), np.nan, dtype=np.float32)
    x[row, column] = _numbers(wide)

    observed = np.isfinite(x)
    missing = (np.arange(len(times)) < lengths[:, None])[:, :, None] & ~observed
    if missing.any():
        if fill == "error":
            i, t, c = (int(place) for place in np.argwhere(missing)[0])
            raise ValueError(
                f"Expected a finite value of every channel at every time, but {int(missing.sum())} are missing, the "
                f"first of {names[c]!r} of {str(ids[i])!r} at {str(times[t])!r}. Fill them with fill='forward', a "
                f"number, or nan for a model that takes NaN (--fill of the commands).{_other_starts(times, columns)}"
            )
        x = _filled(x, fill)
    labels = None if targets is None else _targets(df, columns, targets, ids, times)
    return as_sequences(
        x,
        targets=labels,
        ids=ids,
        channel_names=names,
        times=[str(t) if hasattr(t, "isoformat") else t for t in times],
        lengths=lengths,
        observed=observed if missing.any() else None,
    )


_WAY_OUT = (
    "since_start='minutes' (or seconds, hours, days; --since-start of the commands) counts times from each "
    "sequence's own first row."
)


def _other_starts(times: list[Any], columns: Columns) -> str:
    """The way out where timestamps are missing because sequences begin at different dates."""
    counted = columns.since_start is not None or all(isinstance(time, int | float | np.number) for time in times)
    return "" if counted else f" If sequences begin at different dates, {_WAY_OUT}"


def _since_start(df: pd.DataFrame, id: str, time: str, unit: str) -> pd.Series[Any]:
    """Whole units since each id's first row."""
    import pandas as pd

    if unit not in SECONDS:
        raise ValueError(f"Expected since_start to be one of {', '.join(SECONDS)}, but got {unit!r}.")
    times = df[time]
    if pd.api.types.is_numeric_dtype(times):
        raise ValueError(f"Expected timestamps in {time!r} for since_start={unit!r}, but got {times.dtype}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the format is found out row by row
            # Offsets may change within a sequence, as they do when summer time begins.
            times = times if times.dtype.kind == "m" else pd.to_datetime(times, utc=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"Expected timestamps in {time!r} for since_start={unit!r}, but {error}.") from error
    seconds = (times - times.groupby(df[id]).transform("min")).dt.total_seconds()
    return (seconds // SECONDS[unit]).astype(np.int64)


def _numbers_of_texts(df: pd.DataFrame, time: str, sorts: bool) -> pd.DataFrame:
    """The table with times in text as numbers, where they are; refuses texts whose order is not known.

    Dates that begin with a day or a month are always refused, since nobody sees which it is. Where texts are not read
    as timestamps later on (`sorts`), their own order has to be that in time.
    """
    import pandas as pd

    texts = df[time].drop_duplicates()
    if isinstance(df[time].dtype, pd.CategoricalDtype) or not all(isinstance(text, str) for text in texts):
        return df
    numbers = pd.to_numeric(df[time], errors="coerce")
    if numbers.notna().all():
        return df.assign(**{time: numbers})
    unclear = [_DAY_OR_MONTH_FIRST, _TWELVE_HOURS] if sorts else [_DAY_OR_MONTH_FIRST]
    odd = next((text for text in texts for pattern in unclear if pattern.search(text)), None)
    dated = texts.str.match(_ISO_DATE).all()
    if sorts and odd is None and not dated and texts.str.len().nunique() > 1:
        odd = min(texts, key=len)
    if odd is None:
        return df
    raise ValueError(
        f"Expected times in {time!r} that are numbers, timestamps, or text that sorts as it is (2026-03-31 08:00), but "
        f"got {odd!r}. Convert them first, such as pd.to_datetime(table[{time!r}], format='%d.%m.%Y %H:%M')."
    )


def _sorted_times(df: pd.DataFrame, time: str) -> list[Any]:
    try:
        return sorted(df[time].unique())
    except TypeError as error:
        raise ValueError(f"Expected values of one kind in {time!r}, which can be put in order, but {error}.") from error


def _check_grid(
    rows: int, lengths: np.ndarray[Any, np.dtype[np.int64]], shape: tuple[int, int, int], columns: Columns
) -> None:
    """A grid too large is refused before it is made; one that is nearly empty gives a warning."""
    share, limit = rows / int(lengths.sum()), max_size()
    if 4 * prod(shape) > limit:
        raise ValueError(
            f"Expected at most {limit:,} bytes, but the grid of all ids, times and channels, {shape}, would take "
            f"{4 * prod(shape):,}. {_WAY_OUT}"
        )
    if share < _SPARSE and columns.since_start is None:
        say(
            f"dynamask: the rows fill {100 * share:.1f} % of the grid of all {shape[1]} times of {columns.time!r}: the "
            f"sequences have few times in common. {_WAY_OUT}"
        )


def _numbers(wide: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.float32]]:
    moments = [str(name) for name, kind in wide.dtypes.items() if getattr(kind, "kind", "O") in "mM"]
    if moments:
        raise ValueError(f"Expected channels of numbers, but {', '.join(moments)} hold timestamps or durations.")
    try:
        with np.errstate(over="ignore"):
            return wide.to_numpy(dtype=np.float32, na_value=np.nan)
    except (TypeError, ValueError) as error:
        kinds = ", ".join(f"{name!r} ({kind})" for name, kind in wide.dtypes.items() if kind.kind not in "biuf")
        raise ValueError(
            f"Expected channels of numbers, but {kinds or wide.columns.tolist()}: {error}. Give "
            "codes as numbers, or as a column of 0 and 1 for each (pd.get_dummies)."
        ) from error


def _wide(df: pd.DataFrame, id: str, time: str, channels: Sequence[str] | str, values: str | None) -> pd.DataFrame:
    """One row for each (id, time), one column for each channel."""
    if isinstance(channels, str) and values is None:
        channels = [channels]
    keys = [id, time] if not isinstance(channels, str) else [id, time, channels]
    repeated = df.duplicated(keys)
    if repeated.any():
        first = df.loc[repeated, keys].iloc[0].to_dict()
        raise ValueError(
            f"Expected one row for each {keys}, but {int(repeated.sum())} are repeated, the first {first}. Take one "
            "of them or their mean first, such as table.groupby([...], as_index=False).mean(), or count since_start in "
            "smaller units."
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
            f"but {culprit!r} has {int(several[culprit])}. Pass targets_per_step=True "
            "(--targets-per-step) for targets that change with time."
        )
    return df.drop_duplicates(id).set_index(id)[targets].reindex(ids).to_numpy()
