"""Predictions and targets of any shape, as the page shows them: a text, a number, and what to draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.report.data import ReportData
from dynamask_mlflow.report.messages import percent

OutputKind = Literal["text", "probability", "classes", "value"]


@dataclass(frozen=True, eq=False)
class Outputs:
    """What the model said about each instance.

    Attributes:
        kind: how it is drawn: "text", "probability" (of the last of two classes), "classes", or "value".
        text: (N,) what it is called. value: (N,) numbers to sort by, or None.
        classes: (N, C) probabilities, for "classes". series: (N, T), for a prediction at every step.
    """

    kind: OutputKind
    text: list[str]
    value: NDArray[np.float64] | None = None
    classes: NDArray[np.float64] | None = None
    series: NDArray[np.float64] | None = None


def class_name(data: ReportData, position: int) -> str:
    names = data.class_names
    return str(names[position]) if names is not None and 0 <= position < len(names) else f"class {position}"


def _is_text(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "OUS" and any(isinstance(v, str) for v in array.reshape(-1))


def _labels(data: ReportData, positions: NDArray[Any]) -> list[str]:
    return [class_name(data, int(p)) if np.isfinite(p) else "" for p in positions]


def _number(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}") if np.isfinite(value) else ""


def _level(value: float, data: ReportData) -> str:
    """A mean over steps: of probabilities in percent, of values as it is."""
    return (percent(value) if np.isfinite(value) else "") if data.task == "classification" else _number(value, 3)


def _numbers(row: NDArray[np.float64]) -> str:
    return ", ".join(_number(v) for v in row[:4]) + (", …" if len(row) > 4 else "")


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the steps that are known; NaN where none is."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _series(values: NDArray[np.float64], data: ReportData) -> Outputs:
    """Per-step outputs: (N, T), or (N, T, C) reduced to the class that leads in each instance.

    What a model says about steps in the padding is left out.
    """
    if data.lengths is not None:
        exists = np.arange(values.shape[1]) < np.asarray(data.lengths)[:, None]
        values = np.where(exists if values.ndim == 2 else exists[..., None], values, np.nan)
    if values.ndim == 2 or values.shape[2] == 1:
        series = values.reshape(values.shape[:2])
        mean = _mean(series)
        return Outputs("value", [f"mean {_level(v, data)}" for v in mean], mean, series=series)
    lead = np.argmax(np.nan_to_num(_mean(values)), axis=1)
    if values.shape[2] == 2:
        lead[:] = 1
    series = np.take_along_axis(values, lead[:, None, None], axis=2)[..., 0]
    mean = _mean(series)
    text = [f"{class_name(data, int(c))}, mean {_level(v, data)}" for c, v in zip(lead, mean, strict=True)]
    return Outputs("value", text, mean, series=series)


def describe_predictions(predictions: ArrayLike | None, data: ReportData) -> Outputs | None:
    """Choose how predictions are shown from their type, their shape and the task."""
    if predictions is None:
        return None
    array = np.asarray(predictions)
    if _is_text(array):
        return Outputs("text", [str(v) for v in array.reshape(len(array), -1)[:, 0]])
    whole = array.dtype.kind in "iub"
    values = np.asarray(array, dtype=np.float64)
    if data.per_step:
        return _series(values, data)
    if values.ndim > 1 and values[0:1].size == 1:
        values = values.reshape(len(values))
    if data.task == "classification":
        if values.ndim == 1 and whole:
            return Outputs("text", _labels(data, values))
        if values.ndim == 1 or values.shape[1:] == (2,):
            risk = values if values.ndim == 1 else values[:, 1]
            return Outputs("probability", _labels(data, np.where(np.isnan(risk), np.nan, risk >= 0.5)), risk)
        classes = np.nan_to_num(values.reshape(len(values), -1))
        return Outputs("classes", _labels(data, classes.argmax(axis=1)), classes.max(axis=1), classes=classes)
    flat = values.reshape(len(values), -1)
    if flat.shape[1] <= 1:
        single = flat[:, 0] if flat.shape[1] else np.full(len(flat), np.nan)
        return Outputs("value", [_number(v) for v in single], single)
    return Outputs("value", [_numbers(row) for row in flat], flat.mean(axis=1))


def describe_targets(data: ReportData) -> Outputs | None:
    """Targets as texts (class names) or numbers; per-step targets as a series."""
    if data.targets is None:
        return None
    array = np.asarray(data.targets)
    if _is_text(array):
        return Outputs("text", [str(v) for v in array.reshape(len(array), -1)[:, 0]])
    values = np.asarray(array, dtype=np.float64)
    if data.per_step:
        return _series(values, data)
    flat = values.reshape(len(values), -1)
    if data.task == "classification":
        positions = flat.argmax(axis=1).astype(np.float64) if flat.shape[1] > 1 else flat[:, 0]
        return Outputs("text", _labels(data, positions))
    return Outputs("value", [_numbers(row) for row in flat], flat.mean(axis=1))


def agreement(predicted: Outputs | None, target: Outputs | None, data: ReportData) -> list[bool | None] | None:
    """Where prediction and target name the same class; None where that question makes no sense."""
    if predicted is None or target is None or data.task != "classification" or predicted.series is not None:
        return None
    numbered = data.class_names is None and not _is_text(np.asarray(data.predictions))
    if numbered and _is_text(np.asarray(data.targets)):
        return None  # which name belongs to which number is not known
    return [p == t if p and t else None for p, t in zip(predicted.text, target.text, strict=True)]
