"""From `ReportData` to what the page's scripts read: one JSON value and a few blobs of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.report.colour import scale
from dynamask_mlflow.report.data import Curves, ReportData
from dynamask_mlflow.report.drift import drift_payload
from dynamask_mlflow.report.encode import base64_text, bits_of_flags, bytes_of_ranks, bytes_of_shares, words_of_values
from dynamask_mlflow.report.explained import compared_payload, course_payload, explained_payload, view_payloads
from dynamask_mlflow.report.messages import moment, what_removal_does, where_it_looks, word
from dynamask_mlflow.report.outputs import Outputs, agreement, describe_predictions, describe_targets


@dataclass(frozen=True, eq=False)
class Payload:
    """What is embedded: `values` as JSON, `blobs` as base64, decoded when they are needed."""

    values: Mapping[str, Any]
    blobs: Mapping[str, str]


def _shares(values: ArrayLike | None, otherwise: NDArray[np.floating]) -> NDArray[np.float64]:
    chosen = np.asarray(otherwise if values is None else values, dtype=np.float64)
    array = np.clip(np.nan_to_num(chosen), 0.0, None)
    total = array.sum()
    return array / total if total > 0 else array


def _flags(values: ArrayLike) -> list[bool | None]:
    """Yes, no or unknown."""
    return [None if v is None or v != v else bool(v) for v in np.asarray(values).tolist()]


def _metrics(data: ReportData, correct: list[bool | None] | None) -> list[dict[str, Any]]:
    """One entry a metric, with its words; a boolean array, or a metric known as a flag, is a yes or no."""
    columns: dict[str, Any] = dict(data.metrics)
    if correct is not None:
        columns.setdefault("correct", correct)
    entries = []
    for name, values in columns.items():
        array, spoken = np.asarray(values), word(name, data.task, data.explanations)
        if array.dtype.kind == "b" or spoken.kind == "flag":
            entries.append({"name": name, **asdict(spoken), "kind": "flag", "values": _flags(array)})
        else:
            entries.append({"name": name, **asdict(spoken), "values": array})
    return entries


def _summary(data: ReportData) -> list[dict[str, Any]]:
    numbers = data.summary
    if numbers is None:
        numeric = {k: np.asarray(v) for k, v in data.metrics.items() if np.asarray(v).dtype.kind in "biuf"}
        numbers = {k: float(np.nanmean(v)) for k, v in numeric.items() if v.size and np.isfinite(v).any()}
    numbers = {name.removeprefix("dynamask/"): value for name, value in numbers.items()}
    controls = tuple(f"/{control}" for control in ("other", "random"))
    return [
        {"name": name, **asdict(word(name, data.task, data.explanations)), "value": value}
        | ({"random": numbers[f"{name}/random"]} if f"{name}/random" in numbers else {})
        for name, value in numbers.items()
        if not (name.endswith(controls) and name.rpartition("/")[0] in numbers)
    ]


def _curves(curves: Curves | None, data: ReportData) -> dict[str, Any] | None:
    if curves is None:
        return None
    names = dict.fromkeys([*curves.values, *curves.random])
    return {
        "areas": np.asarray(curves.areas, dtype=np.float64),
        "lines": [
            {
                "name": name,
                **asdict(word(name, data.task, data.explanations)),
                "values": np.asarray(curves.values[name]) if name in curves.values else None,
                **{
                    part: np.asarray(values[name]) if name in values else None
                    for part, values in (("random", curves.random), ("low", curves.low), ("high", curves.high))
                },
            }
            for name in names
        ],
    }


def _setting(value: Any) -> str | int | float:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return value if isinstance(value, str | int | float) else str(value)


def _outputs(outputs: Outputs | None) -> dict[str, Any] | None:
    if outputs is None:
        return None
    return {name: getattr(outputs, name) for name in Outputs.__dataclass_fields__}


def _flips(data: ReportData, before: Outputs | None, after: Outputs | None) -> int | None:
    if "flipped" in data.metrics:
        return int(np.count_nonzero(np.nan_to_num(np.asarray(data.metrics["flipped"], dtype=np.float64))))
    if data.task != "classification" or data.per_step or before is None or after is None:
        return None
    return sum(a != b for a, b in zip(before.text, after.text, strict=True))


def _headline(
    data: ReportData,
    summary: list[dict[str, Any]],
    flips: int | None,
    by_channel: NDArray[np.float64],
    by_time: NDArray[np.float64],
) -> list[str]:
    if not len(data.ids):
        return ["No instance was explained, so there is nothing to show."]
    entries = {entry["name"]: entry for entry in summary}
    names, times = channel_labels(data), [_time_label(t) for t in data.times]
    area, acc = entries.get("area", {}).get("value"), entries.get("acc", {}).get("random")
    removal = what_removal_does(flips, len(data.ids), area, acc)
    return [
        where_it_looks(names, times, by_channel, by_time, data.time_unit),
        *([removal] if removal else []),
    ]


def _profile(data: ReportData) -> NDArray[np.float64]:
    """(T, d) the mean mask."""
    if data.profile is not None:
        return np.asarray(data.profile, dtype=np.float64)
    masks = data.mask_array
    return np.asarray(masks.sum(axis=0, dtype=np.float64) / max(len(masks), 1))


def channel_shares(data: ReportData) -> NDArray[np.float64]:
    """(d,) the share of each channel in the masks."""
    return _shares(data.profile_by_channel, np.nan_to_num(_profile(data)).sum(axis=0))


def time_shares(data: ReportData) -> NDArray[np.float64]:
    """(T,) the share of each step in the masks."""
    return _shares(data.profile_by_time, np.nan_to_num(_profile(data)).sum(axis=1))


def build_headline(data: ReportData) -> list[str]:
    """Two sentences: where the model looks, and what happens without that."""
    before, after = (describe_predictions(p, data) for p in (data.predictions, data.predictions_without))
    flips = _flips(data, before, after)
    return _headline(data, _summary(data), flips, channel_shares(data), time_shares(data))


def build_payload(data: ReportData) -> Payload:
    """Everything the page shows, in the form in which it travels."""
    masks = data.mask_array
    n, steps, channels = masks.shape
    profile = _profile(data)
    before, after = (describe_predictions(p, data) for p in (data.predictions, data.predictions_without))
    targets = describe_targets(data)
    labels = channel_labels(data)
    summary = _summary(data)
    values: dict[str, Any] = {
        "title": data.title,
        "model": data.model,
        "created": moment(data.created_at),
        "task": data.task,
        "method": data.method,
        "unit": data.time_unit,
        "shape": [n, steps, channels],
        "ids": [str(i) for i in data.ids],
        "channels": labels,
        "names": [str(c) for c in data.channel_names],
        "units": None if data.units is None else [str(unit) for unit in data.units],
        "times": [_time_label(t) for t in data.times],
        "classes": None if data.class_names is None else [str(c) for c in data.class_names],
        "perStep": data.per_step,
        "headline": build_headline(data),
        "summary": summary,
        "metrics": _metrics(data, agreement(before, targets, data)),
        "before": _outputs(before),
        "after": _outputs(after),
        "target": _outputs(targets),
        "lengths": None if data.lengths is None else np.asarray(data.lengths, dtype=int),
        "leading": masks.sum(axis=1).argmax(axis=1) if masks.size else np.zeros(n, dtype=int),
        "profile": {"byChannel": channel_shares(data), "byTime": time_shares(data), "map": profile},
        "curves": _curves(data.curves, data),
        "errors": None if data.errors is None else np.asarray(data.errors, dtype=np.float64),
        "comparison": _comparison(data),
        "population": data.population,
        "threshold": data.threshold,
        "paired": {name: asdict(paired) for name, paired in data.paired.items()},
        "groups": [dict(row) for row in data.groups],
        "calibration": [dict(row) for row in data.calibration],
        "settings": {name: _setting(value) for name, value in data.settings.items()},
        "notes": list(data.notes),
        "warnings": list(data.warnings),
        "compared": compared_payload(data.compared),
        "drift": None if data.drift is None else drift_payload(data.drift),
    }
    blobs = {
        "colours": base64_text(np.concatenate([scale(), scale(dark=True)])),
        "masks": base64_text(bytes_of_shares(masks)),
    }
    values["explained"], signed = explained_payload(data.contributions)
    values["views"], others = view_payloads(data.views)
    values["course"], moves = course_payload(data.course)
    blobs |= signed | others | moves | _optional_blobs(data)
    if data.inputs is not None:
        words, low, high = words_of_values(data.inputs)
        blobs["inputs"] = base64_text(words)
        values["ranges"] = [low, high]
    return Payload(values, blobs)


def _comparison(data: ReportData) -> list[dict[str, Any]]:
    """The other methods, with their metrics and curves."""
    return [
        {
            "method": method,
            "metrics": {k.removeprefix("dynamask/"): v for k, v in result.metrics.items()},
            "words": {k: asdict(word(k, data.task, data.explanations)) for k in result.metrics},
            "curves": _curves(result.curves, data),
        }
        for method, result in data.comparison.items()
    ]


def _optional_blobs(data: ReportData) -> dict[str, str]:
    """Ranks and flags of the cells, where the report has them."""
    blobs = {}
    if data.scores is not None:
        blobs["ranks"] = base64_text(bytes_of_ranks(np.asarray(data.scores)))
    if data.observed is not None:
        blobs["observed"] = base64_text(bits_of_flags(data.observed))
    if data.highlighted is not None:
        blobs["highlighted"] = base64_text(bits_of_flags(data.highlighted))
    return blobs


def channel_labels(data: ReportData) -> list[str]:
    """Channels as a reader knows them."""
    return [str(c) for c in (data.channel_names if data.channel_labels is None else data.channel_labels)]


def _time_label(time: object) -> str:
    """Hours stored as floats are whole numbers to a reader."""
    return str(int(time)) if isinstance(time, float) and time.is_integer() else str(time)
