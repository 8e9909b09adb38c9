"""Gaps and scales: causal fill, then imputation and standardisation by the training patients alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.data.features import FeatureSet

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Preprocessing:
    """How raw hour blocks become model input: (fill(v) - mean) / std, `default` before the first observation.

    It is fitted once, on training patients, and travels with the model: data of later months are transformed
    by it, never refitted.
    """

    feature_set: str
    feature_set_version: int
    feature_set_digest: str
    hours: int
    channel_names: tuple[str, ...]
    units: tuple[str, ...]
    fill: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    default: tuple[float, ...]
    fitted_on_stays: int
    fitted_on_patients: int
    labels: tuple[str, ...] = ()  # what a reader calls the channels

    def apply(self, values: FloatArray, observed: BoolArray, rows: int = 2048) -> FloatArray:
        """Fill, impute and standardise in place; `values` is (N, T, d), 0 where not `observed`."""
        if values.shape[1:] != (self.hours, len(self.channel_names)):
            expected = (self.hours, len(self.channel_names))
            raise DataError(f"Expected blocks of (hours, channels) = {expected}, but got {values.shape[1:]}.")
        mean, std = np.asarray(self.mean, dtype=np.float32), np.asarray(self.std, dtype=np.float32)
        default = np.asarray(self.default, dtype=np.float32)
        future = np.array([rule == "window_mean" for rule in self.fill])
        carried = np.array([rule == "forward" for rule in self.fill])
        for start in range(0, len(values), rows):
            part, seen = values[start : start + rows], observed[start : start + rows]
            filled = np.where(seen, part, default)
            filled[..., carried] = carry_forward(part[..., carried], seen[..., carried], default[carried])
            if future.any():
                filled[..., future] = fill_window_mean(part[..., future], seen[..., future], default[future])
            part[...] = (filled - mean) / std
        return values

    def invert(self, x: FloatArray) -> FloatArray:
        """Model input back to the units of the feature set."""
        return x * np.asarray(self.std, dtype=np.float32) + np.asarray(self.mean, dtype=np.float32)

    def to_dict(self) -> dict[str, Any]:
        stored = asdict(self)
        if not self.labels:
            del stored["labels"]
        return {"schema_version": SCHEMA_VERSION, **stored}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        entries = dict(stored)
        version = entries.pop("schema_version", None)
        if version != SCHEMA_VERSION:
            raise DataError(f"Expected preprocessing of schema version {SCHEMA_VERSION}, but got {version}.")
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entries.items()}
        return cls(**fields)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.from_dict(json.loads(text))


def carry_forward(values: FloatArray, observed: BoolArray, default: FloatArray) -> FloatArray:
    """The last value observed up to and including each hour; `default` before the first.

    Never looks ahead.
    """
    hours = np.arange(values.shape[1])[None, :, None]
    last = np.maximum.accumulate(np.where(observed, hours, -1), axis=1)
    carried = np.take_along_axis(values, np.maximum(last, 0), axis=1)
    return np.where(last >= 0, carried, default)


def fill_window_mean(values: FloatArray, observed: BoolArray, default: FloatArray) -> FloatArray:
    """Gaps become the mean of the stay's window. It looks ahead: only for comparison with the paper."""
    count = observed.sum(axis=1, keepdims=True)
    mean = np.where(observed, values, 0).sum(axis=1, keepdims=True) / np.maximum(count, 1)
    return np.where(observed, values, np.where(count > 0, mean, default)).astype(np.float32)


def fit(
    features: FeatureSet, values: FloatArray, observed: BoolArray, training: BoolArray, patients: int
) -> Preprocessing:
    """Mean and standard deviation of the observed cells of the training stays; 0 and 1 if there are none."""
    chosen = np.flatnonzero(training)
    count, total, square = (np.zeros(values.shape[2]) for _ in range(3))
    shift = _first_observed(values, observed, chosen)
    for start in range(0, len(chosen), 2048):
        rows = chosen[start : start + 2048]
        seen = observed[rows]
        centred = np.where(seen, values[rows].astype(np.float64) - shift, 0.0)
        count += seen.sum(axis=(0, 1))
        total += centred.sum(axis=(0, 1))
        square += np.square(centred).sum(axis=(0, 1))
    safe = np.maximum(count, 1)
    variance = np.maximum(square / safe - np.square(total / safe), 0.0)
    mean = np.where(count > 0, shift + total / safe, 0.0)
    std = np.sqrt(variance)
    # A constant channel keeps its distance from the mean instead of exploding.
    std = np.where(std > 1e-6 * np.maximum(1.0, np.abs(mean)), std, 1.0)
    default = [
        channel.default if channel.default is not None else float(mean[index])
        for index, channel in enumerate(features.channels)
    ]
    return Preprocessing(
        feature_set=features.name,
        feature_set_version=features.version,
        feature_set_digest=features.digest,
        hours=features.hours,
        channel_names=features.channel_names,
        units=tuple(channel.unit for channel in features.channels),
        fill=tuple(channel.fill for channel in features.channels),
        mean=tuple(float(value) for value in mean),
        std=tuple(float(value) for value in std),
        default=tuple(default),
        fitted_on_stays=len(chosen),
        fitted_on_patients=patients,
        labels=tuple(channel.label or channel.name for channel in features.channels),
    )


def _first_observed(values: FloatArray, observed: BoolArray, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """One observed value a channel: subtracting it first keeps the variance of a far-off mean exact."""
    shift = np.zeros(values.shape[2])
    rows = chosen[:256]
    for channel in range(values.shape[2]):
        cells = values[rows, :, channel][observed[rows, :, channel]]
        shift[channel] = cells[0] if len(cells) else 0.0
    return shift
