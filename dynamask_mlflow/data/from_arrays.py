"""A dataset for audits out of arrays that are as the model takes them: cycles, drives, meters, anything but tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.data.preprocess import Preprocessing

NAMES = ("ids", "groups", "attributes")


def dataset_from_arrays(
    x: ArrayLike,
    *,
    began: ArrayLike,
    channel_names: Sequence[str],
    labels: ArrayLike | None = None,
    observed: ArrayLike | None = None,
    names: Mapping[str, Any] | None = None,
    times: Sequence[float] | None = None,
) -> StayDataset:
    """Sequences of any kind as a dataset, which `save` makes a folder for `audit`, `gate`, `explain` and `evaluate`.

    Args:
        x: (N, T, d) finite values, as the model takes them; nothing is filled or scaled.
        began: (N,) when each sequence began, by which windows are chosen: datetime64, or text such as 2026-03-31T08:00.
        channel_names: d names.
        labels: (N,) outcomes 0 and 1, NaN where unknown; by default all unknown.
        observed: (N, T, d) True where a value was measured; by default everywhere.
        names: `ids`: (N,) unique names, by default 0, 1, 2, ...; `groups`: (N,) what several sequences share, such as a
            machine or a customer, by default none; `attributes`: name -> (N,) text, for slices and subgroups.
        times: (T,) of the steps, by default 0, 1, 2, ...

    Returns:
        The dataset, all of it in the split "test".

    Example:
        >>> import numpy as np
        >>> data = dataset_from_arrays(np.zeros((2, 5, 1)), began=["2026-01-31", "2026-02-01"], channel_names=["speed"])
        >>> data.windows.tolist()
        ['2026-01', '2026-02']
    """
    values = np.asarray(x, dtype=np.float32)
    if values.ndim != 3 or 0 in values.shape or not np.isfinite(values).all():
        raise DataError(f"Expected finite x of shape (N, T, d), none of them 0, but got {values.shape} or NaN in it.")
    n, steps, channels = values.shape
    known = dict(names or {})
    unknown = [name for name in known if name not in NAMES]
    if unknown:
        raise DataError(f"Expected names of {', '.join(NAMES)}, but got {', '.join(unknown)}.")
    ids = _column("ids", known.get("ids", np.arange(n)), n)
    starts = _column("began", began, n).astype("datetime64[s]")
    if len(np.unique(ids)) < n:
        raise DataError("Expected unique ids, but some appear more than once.")
    if len(channel_names) != channels:
        raise DataError(f"Expected {channels} channel_names, but got {len(channel_names)}.")
    ticks = range(steps) if times is None else times
    if len(ticks) != steps:
        raise DataError(f"Expected {steps} times, but got {len(ticks)}.")
    outcomes = np.full(n, np.nan) if labels is None else _column("labels", labels, n)
    seen = np.ones(values.shape, bool) if observed is None else np.asarray(observed, dtype=bool)
    if seen.shape != values.shape:
        raise DataError(f"Expected observed of shape {values.shape}, but got {seen.shape}.")
    return StayDataset(
        x=values,
        observed=seen,
        ids=ids,
        patient_ids=_column("groups", known.get("groups", ids), n),
        labels=outcomes.astype(np.float32),
        splits=np.full(n, "test"),
        windows=starts.astype("datetime64[M]").astype(str),
        admitted=starts,
        times=tuple(float(tick) for tick in ticks),
        channel_names=tuple(channel_names),
        preprocessing=_unchanged(tuple(channel_names), steps),
        attributes={name: _column(name, each, n).astype(str) for name, each in known.get("attributes", {}).items()},
        report={"source": "arrays"},
    )


def _column(name: str, values: ArrayLike, n: int) -> NDArray[Any]:
    column = np.asarray(values)
    if column.shape != (n,):
        raise DataError(f"Expected {name} of shape ({n},), but got {column.shape}.")
    return column


def _unchanged(channel_names: tuple[str, ...], steps: int) -> Preprocessing:
    """Statistics that leave values as they are."""
    zeros, texts = (0.0,) * len(channel_names), ("",) * len(channel_names)
    return Preprocessing(
        feature_set="arrays",
        feature_set_version=1,
        feature_set_digest="",
        hours=steps,
        channel_names=channel_names,
        units=texts,
        fill=("forward",) * len(channel_names),
        mean=zeros,
        std=(1.0,) * len(channel_names),
        default=zeros,
        fitted_on_stays=0,
        fitted_on_patients=0,
    )
