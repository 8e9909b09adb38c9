"""Contracts of the tables: what they promise, checked, with the column and the count of every breach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.codes import CodeTable
from dynamask_mlflow.data.errors import DataError, Finding, Level
from dynamask_mlflow.data.features import Channel, FeatureSet
from dynamask_mlflow.data.grid import Grid

if TYPE_CHECKING:
    import pandas as pd

# From this share of values out of range on, the unit rather than the measurement is suspected.
WRONG_UNIT_SHARE = 0.05
LEAK_AUROC = 0.98
FIRST_HOUR_MINIMUM = 100  # values, below which all of them may well lie in one hour
LEAK_MINIMUM = 20  # stays of either outcome, below which a separation means nothing


def check_stays(stays: pd.DataFrame, label: str) -> list[Finding]:
    """Ids, times and labels of the table of stays."""
    if stays.empty:
        raise DataError("Expected at least one stay, but the table of stays is empty.")
    values = stays[label]
    rules: list[tuple[Level, str, str, pd.Series[bool], str]] = [
        ("error", "duplicate id", "stay_id", stays["stay_id"].duplicated(), "one row for each stay_id"),
        ("error", "missing id", "patient_id", stays["patient_id"].isna(), "a patient_id for every stay"),
        ("error", "label", label, values.notna() & ~values.isin([0, 1]), f"0 or 1 in {label}"),
        (
            "warning",
            "label",
            label,
            values.isna(),
            f"a label in {label} (without one there is no training; --stays names a table of them)",
        ),
        (
            "warning",
            "time order",
            "los_hours",
            stays["los_hours"] < 0,
            "discharge after admission (los_hours)",
        ),
        (
            "warning",
            "time order",
            "death_hours",
            stays["death_hours"] < 0,
            "death after admission (death_hours)",
        ),
        ("warning", "age", "age", stays["age"] < 0, "no negative age (taken as missing)"),
    ]
    return [
        Finding(
            level,
            name,
            column,
            int(broken.sum()),
            f"Expected {promise}, but that does not hold for {broken.sum()} of {len(stays)} stays.",
        )
        for level, name, column, broken, promise in rules
        if broken.any()
    ]


def check_events(features: FeatureSet, codes: CodeTable, grid: Grid) -> list[Finding]:
    """Values, units and times of the events, by channel."""
    if not grid.tallies["read"].sum():
        raise DataError(f"Expected events with one of the {len(codes)} codes of {features.name}, but got none.")
    found = _check_hours(grid)
    for index, channel in enumerate(features.channels):
        own = np.flatnonzero(codes.channel == index)
        tally = {name: int(counts[own].sum()) for name, counts in grid.tallies.items()}
        if len(own) and not tally["read"]:
            listed = ", ".join(str(codes.codes[row]) for row in own)
            message = f"No event in the window has a code of {channel.name} ({listed})."
            found.append(Finding("warning", "unknown code", channel.name, len(own), message))
        units = {unit: count for (row, unit), count in grid.units.items() if codes.channel[row] == index}
        found += _check_channel(channel, tally, units)
    return found


def _check_hours(grid: Grid) -> list[Finding]:
    """Everything in the first hour is more often a misread clock than a hospital."""
    by_hour = np.asarray(grid.counts.sum(axis=(0, 2), dtype=np.int64))
    total = int(by_hour.sum())
    if len(by_hour) < 2 or total < FIRST_HOUR_MINIMUM or by_hour[0] < total:
        return []
    message = f"All {total} values lie in the first hour after admission: do times count something else (--clock)?"
    return [Finding("warning", "time", "time", total, message)]


def _check_channel(channel: Channel, tally: dict[str, int], units: dict[str, int]) -> list[Finding]:
    name, read = channel.name, tally["read"]
    outside = range_finding(name, read, tally["low"], tally["high"])
    found = [outside] if outside else []
    if units:
        listed = ", ".join(f"{unit!r} x {count}" for unit, count in sorted(units.items()))
        message = f"Expected {name} in {channel.unit}, but {tally['unit']} of {read} values differ ({listed})."
        found.append(Finding("warning", "unit", name, tally["unit"], message))
    if tally["time"]:
        message = f"{tally['time']} of {read} events of {name} have no time that can be read."
        found.append(Finding("warning", "unreadable", name, tally["time"], message))
    if tally["not_numeric"]:
        message = f"{tally['not_numeric']} of {read} events of {name} have no numeric value."
        found.append(Finding("note", "unreadable", name, tally["not_numeric"], message))
    return found


def range_finding(channel: str, read: int, low: int, high: int) -> Finding | None:
    """Values that were left out since they are too low or too high: a warning if they are many."""
    outside = low + high
    if not outside:
        return None
    suspicious = outside >= WRONG_UNIT_SHARE * read
    message = (
        f"{outside} of {read} values of {channel} are out of range ({low} too low, {high} too high) and left "
        f"out{': wrong unit?' if suspicious else '.'}"
    )
    return Finding("warning" if suspicious else "note", "range", channel, outside, message)


def check_tensor(
    features: FeatureSet,
    values: NDArray[np.float32],
    observed: NDArray[np.bool_],
    labels: NDArray[np.float32],
) -> list[Finding]:
    """Constant channels, medians that no hospital has, and single channels that give the label away."""
    found = []
    for index, channel in enumerate(features.channels):
        cells, seen = values[:, :, index], observed[:, :, index]
        sample = cells[seen]
        if not len(sample) or (len(values) > 1 and np.ptp(sample) == 0 and seen.all()):
            message = f"{channel.name} is constant in all {len(values)} stays."
            found.append(Finding("warning", "constant", channel.name, len(values), message))
            continue
        if channel.typical is not None:
            low, high = channel.typical
            median = float(np.median(sample[:: max(1, len(sample) // 100_000)]))
            if not low <= median <= high:
                message = (
                    f"Expected the median of {channel.name} in {low:g} to {high:g} {channel.unit}, but it is "
                    f"{median:g} over {len(sample)} hours: wrong unit?"
                )
                found.append(Finding("warning", "unit", channel.name, len(sample), message))
        score = _separation(cells, seen, labels)
        if score >= LEAK_AUROC:
            message = (
                f"{channel.name} alone separates the label with AUROC {score:.3f} over {len(values)} stays: "
                "does it record the outcome?"
            )
            found.append(Finding("warning", "label leakage", channel.name, len(values), message))
    ahead = [channel.name for channel in features.channels if channel.fill == "window_mean"]
    if ahead:
        listed = ", ".join(ahead)
        message = f"{len(ahead)} channels are filled with the mean of the window, future hours included ({listed})."
        found.append(Finding("warning", "not causal", listed, len(ahead), message))
    return found


def check_splits(patients: NDArray[Any], splits: NDArray[np.str_]) -> list[Finding]:
    """No patient in two parts."""
    pairs = {(str(patient), str(split)) for patient, split in zip(patients, splits, strict=True)}
    count = len(pairs) - len({patient for patient, _ in pairs})
    if not count:
        return []
    message = f"Expected every patient_id in one split, but {count} are in two or more."
    return [Finding("error", "split", "patient_id", count, message)]


def _separation(cells: NDArray[np.float32], seen: NDArray[np.bool_], labels: NDArray[np.float32]) -> float:
    """The better AUROC, of a stay's mean and of its number of measurements; 0 if undecidable."""
    from scipy.stats import rankdata

    count = np.asarray(seen.sum(axis=1))
    mean = np.where(seen, cells, 0).sum(axis=1) / np.maximum(count, 1)
    known = np.isfinite(labels)
    scores = [0.0]
    for score, valid in ((mean, known & (count > 0)), (count, known)):
        positive = labels[valid] == 1
        if min(positive.sum(), (~positive).sum()) < LEAK_MINIMUM:
            continue
        auroc = (rankdata(score[valid])[positive].mean() - (positive.sum() + 1) / 2) / (~positive).sum()
        scores.append(max(auroc, 1 - auroc))
    return float(max(scores))
