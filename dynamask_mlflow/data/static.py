"""Descriptors of a stay, such as age: one number for all hours, from the table of stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.contracts import range_finding
from dynamask_mlflow.data.errors import DataError, Finding
from dynamask_mlflow.data.features import Channel, FeatureSet

if TYPE_CHECKING:
    import pandas as pd


def fill_static(
    features: FeatureSet, cohort: pd.DataFrame, values: NDArray[Any], observed: NDArray[Any]
) -> list[Finding]:
    """Write the static channels into `values` and `observed`; what is out of range is left out and counted."""
    findings = []
    for index, channel in enumerate(features.channels):
        if channel.kind == "static":
            column, found = _in_range(channel, _numbers(channel, cohort))
            findings += found
            known = np.isfinite(column)
            values[:, :, index] = np.where(known, column, 0)[:, None]
            observed[:, :, index] = known[:, None]
    return findings


def _numbers(channel: Channel, cohort: pd.DataFrame) -> NDArray[np.float64]:
    if channel.static not in cohort:
        raise DataError(f"Expected channel {channel.name} to name a column of the stays, but got {channel.static!r}.")
    column = cohort[channel.static]
    if not channel.levels:
        return column.to_numpy(dtype=np.float64)
    other = np.nan if channel.other is None else channel.other

    def level(text: Any) -> float:
        if not isinstance(text, str) or not text:
            return np.nan
        return next((value for prefix, value in channel.levels.items() if text.upper().startswith(prefix)), other)

    return np.array([level(text) for text in column], dtype=np.float64)


def _in_range(channel: Channel, column: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[Finding]]:
    """The column with its missing marks and values out of range as NaN, converted to the channel's unit."""
    if not channel.groups:
        return column, []
    (group,) = channel.groups
    column = np.where(np.isin(column, group.missing), np.nan, column)
    low, high = column <= group.low, column > group.high
    kept = np.where(low | high, np.nan, column) * group.scale + group.offset
    read = int(np.isfinite(column).sum())
    found = range_finding(channel.name, read, int(low.sum()), int(high.sum()))
    return kept, [found] if found else []
