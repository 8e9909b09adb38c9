"""What an audit keeps of explained stays: where each mask looks, how faithful it is, what its inputs were like."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow._npz import load_arrays
from dynamask_mlflow.audit.statistics import Codes, decile_codes, decile_edges

SCHEMA_VERSION = 2
_BY_STAY = ("ids", "patients", "by_channel", "by_time", "values", "missing", "codes", "effects")
_ARRAYS = (*_BY_STAY, "attention", "masks")
_PREDICTED = "predicted/"


@dataclass(frozen=True, eq=False)
class PredictedStays:
    """Predictions of N stays, explained or not.

    Attributes:
        ids, patients: (N,) text.
        numbers: name -> (N,): "risk"; "class", if there are more than two; "label", NaN where it is not known.
    """

    ids: NDArray[np.str_]
    patients: NDArray[np.str_]
    numbers: Mapping[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.ids)

    def with_number(self, name: str, by_id: Mapping[str, float]) -> PredictedStays:
        """One more number a stay; NaN where none is given."""
        return replace(self, numbers={**self.numbers, name: _by_id(self.ids, by_id)})


@dataclass(frozen=True, eq=False)
class ExplainedWindow:
    """N stays of T steps and d channels.

    Attributes:
        ids, patients: (N,) text.
        by_channel: (N, d), by_time: (N, T): shares of attention; NaN where the model does not react at all.
        numbers: name -> (N,): area, entropy, risk; "ce" and "acc", or "squared_error", without the mask's cells;
            "other" and "mean_map", the same shift for another patient's mask and for the mean map.
            "label", the outcome, NaN where it is not known.
        values: (N, d) mean of what was measured, NaN where nothing was. missing: (N, d) share that was not. Both are
            (N, 0) in what leaves the store: only their codes do.
        codes: (N, 2 d) places of values and missing rates among the deciles of a reference; (N, 0) until it is known.
        effects: (N, d) change of the prediction when a channel is set to 0, the mean of standardised inputs.
        attention: (T, d) sum over the stays of their shares by cell.
        masks: (k, T, d) masks of the first k stays.
        failures: id -> what went wrong, for stays that are not among the N.
        channel_names, times: names of the axes. record: how it was made (JSON-able).
        attributes: name -> (N,) text, such as "sex" -> "female"; "" where unknown. None until they are asked for.
        shift_codes: (N, 3 d) codes of the mean values in each shift of the day; empty until they are asked for.
        predicted: more stays of the window, which were predicted, but not explained.
    """

    ids: NDArray[np.str_]
    patients: NDArray[np.str_]
    by_channel: NDArray[np.float64]
    by_time: NDArray[np.float64]
    numbers: Mapping[str, NDArray[np.float64]]
    values: NDArray[np.float64]
    missing: NDArray[np.float64]
    codes: Codes
    effects: NDArray[np.float64]
    attention: NDArray[np.float64]
    masks: NDArray[np.float32]
    failures: Mapping[str, str]
    channel_names: tuple[str, ...]
    times: tuple[Any, ...]
    record: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    shift_codes: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int8))
    predicted: PredictedStays | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def task(self) -> str:
        """Of the model."""
        return "regression" if "squared_error" in self.numbers else "classification"

    @property
    def first_failure(self) -> str:
        """Why the first of the stays failed; empty if none did."""
        return next(iter(self.failures.values()), "")

    @property
    def usable(self) -> NDArray[np.bool_]:
        """(N,) stays whose mask looks somewhere."""
        return np.asarray(np.isfinite(self.by_channel).all(axis=1))

    @property
    def shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.by_channel, self.by_time

    @property
    def predictions(self) -> PredictedStays:
        """Of all stays of the window, explained or not: the numbers that both have."""
        names = [name for name in ("risk", "class", "label") if name in self.numbers]
        own = PredictedStays(self.ids, self.patients, {name: self.numbers[name] for name in names})
        more = self.predicted
        if more is None or not len(more):
            return own
        return PredictedStays(
            np.concatenate([own.ids, more.ids]),
            np.concatenate([own.patients, more.patients]),
            {name: np.concatenate([own.numbers[name], more.numbers[name]]) for name in names if name in more.numbers},
        )

    def mean_shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Mean shares by channel (d,), by time (T,) and by cell (T, d)."""
        good = self.usable
        count = max(int(good.sum()), 1)
        return self.by_channel[good].mean(axis=0), self.by_time[good].mean(axis=0), self.attention / count

    @property
    def has_inputs(self) -> bool:
        """Whether the stays' mean inputs are in here, and not only their codes."""
        return bool(self.values.shape[1] > 0)

    def mean_effects(self) -> NDArray[np.float64]:
        """(d,) mean size of the change of the prediction without each channel: how much rests on it."""
        return np.asarray(np.abs(self.effects).mean(axis=0)) if len(self) else np.zeros(self.effects.shape[1])

    def input_edges(self) -> NDArray[np.float64]:
        """(2 d, 9) deciles of the values and of the missing rates."""
        return decile_edges(np.concatenate([self.values, self.missing], axis=1))

    def coded(self, edges: NDArray[np.float64]) -> ExplainedWindow:
        """The same without mean inputs, which are replaced by their places among the deciles of a reference."""
        if not self.has_inputs:
            return self
        nothing = np.zeros((len(self), 0))
        codes = decile_codes(np.concatenate([self.values, self.missing], axis=1), edges)
        return replace(self, values=nothing, missing=nothing, codes=codes)

    def with_number(self, name: str, by_id: Mapping[str, float]) -> ExplainedWindow:
        """One more number a stay; NaN where none is given."""
        more = None if self.predicted is None else self.predicted.with_number(name, by_id)
        return replace(self, numbers={**self.numbers, name: _by_id(self.ids, by_id)}, predicted=more)

    def take(self, rows: NDArray[Any]) -> ExplainedWindow:
        """Some of the stays, by positions or booleans, without masks, failures and stays that were only predicted."""
        return replace(
            self,
            **{name: getattr(self, name)[rows] for name in _BY_STAY},
            numbers={name: values[rows] for name, values in self.numbers.items()},
            attributes={name: column[rows] for name, column in self.attributes.items()},
            shift_codes=self.shift_codes[rows] if len(self.shift_codes) else self.shift_codes,
            masks=self.masks[:0],
            failures={},
            predicted=None,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[ExplainedWindow], keep: int) -> ExplainedWindow:
        """Join shards in order, with the masks of at most `keep` stays.

        Masks belong to the first stays of each part; their ids are in the record.
        """
        if not parts:
            raise ValueError("Expected at least one part to join, but got none.")
        first = next((part for part in parts if len(part)), parts[0])
        for part in parts:
            if part.channel_names != first.channel_names or part.times != first.times:
                raise ValueError("Expected parts with the same channels and times, but they differ.")
        shown = [str(name) for part in parts for name in part.record.get("shown", ())][:keep]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _BY_STAY}
        return cls(
            **arrays,
            numbers={
                name: np.concatenate([part.numbers[name] for part in parts if len(part)] or [np.zeros(0)])
                for name in first.numbers
            },
            attention=np.sum([part.attention for part in parts], axis=0),
            masks=np.concatenate([part.masks for part in parts])[:keep],
            failures={k: v for part in parts for k, v in part.failures.items()},
            channel_names=first.channel_names,
            times=first.times,
            record={
                **first.record,
                "shown": shown,
                "seconds": float(sum(part.record.get("seconds", 0.0) for part in parts)),
            },
        )

    def save(self, path: str | Path) -> Path:
        """Write an npz without pickle; the file appears whole or not at all."""
        meta = {
            "schema_version": SCHEMA_VERSION,
            "numbers": list(self.numbers),
            "failures": dict(self.failures),
            "channel_names": self.channel_names,
            "times": self.times,
            "record": dict(self.record),
            "attributes": list(self.attributes),
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"number/{name}": values for name, values in self.numbers.items()}
        arrays |= {f"attribute/{name}": column for name, column in self.attributes.items()}
        arrays["shift_codes"] = self.shift_codes
        if self.predicted is not None:
            more = {"ids": self.predicted.ids, "patients": self.predicted.patients, **self.predicted.numbers}
            arrays |= {f"{_PREDICTED}{name}": values for name, values in more.items()}
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        buffer = BytesIO()
        np.savez_compressed(buffer, **arrays)
        atomic_write(Path(path), buffer.getvalue())
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> ExplainedWindow:
        """Read what `save` wrote."""
        try:
            stored = load_arrays(path)
            meta = json.loads(stored["meta"].tobytes())
        except Exception as error:  # numpy and zipfile report damage in many ways
            raise ValueError(f"Expected measured stays at {path}, but cannot read them: {error}.") from error
        if meta.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"Expected measured stays of schema version {SCHEMA_VERSION}, but {path} has "
                f"{meta.get('schema_version')}; if they are of a reference, build it again."
            )
        return cls(
            **{name: stored[name] for name in _ARRAYS},
            numbers={name: stored[f"number/{name}"] for name in meta["numbers"]},
            failures=meta["failures"],
            channel_names=tuple(meta["channel_names"]),
            times=tuple(meta["times"]),
            record=meta["record"],
            attributes={name: stored[f"attribute/{name}"] for name in meta.get("attributes", ())},
            shift_codes=stored.get("shift_codes", np.zeros((0, 0), dtype=np.int8)),
            predicted=_predicted(stored),
        )


def joined_attributes(parts: Sequence[ExplainedWindow]) -> dict[str, NDArray[np.str_]]:
    """name -> values of all stays of the parts, one part after the other, for the attributes that all parts have."""
    shared = [name for name in parts[0].attributes if all(name in part.attributes for part in parts)]
    return {name: np.concatenate([part.attributes[name] for part in parts]) for name in shared}


def members(column: NDArray[np.str_]) -> dict[str, NDArray[np.bool_]]:
    """value -> which stays have it, for the known values of an attribute.

    >>> members(np.array(["male", "", "female"]))["male"].tolist()
    [True, False, False]
    """
    return {value: column == value for value in sorted(set(column.tolist()) - {""})}


def _predicted(stored: Mapping[str, NDArray[Any]]) -> PredictedStays | None:
    found = {name.removeprefix(_PREDICTED): stored[name] for name in stored if name.startswith(_PREDICTED)}
    return PredictedStays(found.pop("ids"), found.pop("patients"), found) if found else None


def _by_id(ids: NDArray[np.str_], by_id: Mapping[str, float]) -> NDArray[np.float64]:
    return np.array([by_id.get(str(stay), np.nan) for stay in ids], dtype=np.float64)
