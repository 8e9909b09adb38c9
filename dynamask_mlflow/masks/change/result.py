"""The change of an answer between two times, and what brought it."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._files import atomic_file
from dynamask_mlflow._npz import load_arrays

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_CELLS = ("contributions", "masks", "binary", "scores", "spread")
_APART = ("diagnostics", "config")


@dataclass(frozen=True, eq=False)
class Change:
    """Changes of N instances of T steps and d channels.

    Attributes:
        contributions: (N, T, d) float32: signed, in the target's units (logits for a class). With `elapsed` they sum to
            `change`. Cells that were known before are 0.
        elapsed: (N,) what the answer moved by the passage of time alone, with nothing new: 0 for models of a fixed
            window; models that answer at each step or take lengths may have any.
        before, after: (N,) the target score at `since` and at `until`.
        since, until: (N,) how many steps were known then. `since` is 0 where two sequences are compared.
        masks: (N, T, d) float32 in [0, 1]: the probability that a cell brought the change.
        binary: (N, T, d) bool: the mask of whole cells.
        scores: (N, T, d) float32: the ranking of the cells.
        direction: (N,) int8: raised (1), lowered (-1), or nothing to explain (0).
        outputs_before, outputs_after: (N, C) probabilities of the classes, or values.
        spread: (N, T, d) float32 or None: how far a coefficient moves under the other baseline.
        diagnostics: name -> (N,): `remainder`, the share of the change that the integral missed, spread over the cells;
            `hold`, `converged`, ... of the masks.
        config: how it was made (JSON-able).
    """

    contributions: Floats
    elapsed: Doubles
    before: Doubles
    after: Doubles
    since: NDArray[np.int64]
    until: NDArray[np.int64]
    masks: Floats
    binary: NDArray[np.bool_]
    scores: Floats
    direction: NDArray[np.int8]
    outputs_before: Doubles
    outputs_after: Doubles
    spread: Floats | None = None
    diagnostics: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = self.contributions.shape
        if len(shape) != 3:
            raise ValueError(f"Expected contributions of shape (N, T, d), but got {shape}.")
        for name, values in self._arrays().items():
            wanted = shape if name in _CELLS else shape[:1]
            if values is not None and values.shape[: len(wanted)] != wanted:
                raise ValueError(f"Expected {name} of shape {wanted}, but got {values.shape}.")

    def __len__(self) -> int:
        return len(self.contributions)

    @property
    def change(self) -> Doubles:
        """(N,): after - before, in the target's units."""
        return np.asarray(self.after - self.before)

    @property
    def target(self) -> str:
        """What was explained, as it was asked: "auto", "class:1", ..."""
        return str(self.config.get("target", "auto"))

    @property
    def by_channel(self) -> Doubles:
        """(N, d): the contribution of each channel."""
        return np.asarray(self.contributions.sum(axis=1, dtype=np.float64))

    @property
    def by_step(self) -> Doubles:
        """(N, T): the contribution of each step."""
        return np.asarray(self.contributions.sum(axis=2, dtype=np.float64))

    @property
    def new_cells(self) -> NDArray[np.bool_]:
        """(N, T): the steps that came in between `since` and `until`."""
        steps = np.arange(self.contributions.shape[1])
        return np.asarray((steps >= self.since[:, None]) & (steps < self.until[:, None]))

    def __getitem__(self, index: Any) -> Self:
        """The changes of some instances: an int, a slice, or an array of positions or booleans."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        return self._with(lambda values: values[rows])

    def _arrays(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _APART}

    def _with(self, take: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        taken: dict[str, Any] = {
            name: None if values is None else take(values) for name, values in self._arrays().items()
        }
        diagnostics = {name: take(values) for name, values in self.diagnostics.items()}
        return type(self)(**taken, diagnostics=diagnostics, config=self.config)

    @classmethod
    def concatenate(cls, parts: Sequence[Change]) -> Change:
        """Join parts that were made with one configuration, in the order given."""
        if not parts:
            raise ValueError("Expected at least one part to concatenate, but got none.")
        first = parts[0]
        for part in parts[1:]:
            if part.config != first.config:
                keys = sorted({*part.config, *first.config})
                found = [key for key in keys if part.config.get(key) != first.config.get(key)]
                raise ValueError(f"Expected parts of one configuration, but they differ in {', '.join(found)}.")

        def joined(values: list[Any]) -> Any:
            return None if any(value is None for value in values) else np.concatenate(values)

        shared = [name for name in first.diagnostics if all(name in part.diagnostics for part in parts)]
        return cls(
            **{name: joined([getattr(part, name) for part in parts]) for name in first._arrays()},
            diagnostics={name: joined([part.diagnostics[name] for part in parts]) for name in shared},
            config=first.config,
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write an npz without pickle; the file appears whole or not at all."""
        target = Path(path)
        meta = {"schema_version": SCHEMA_VERSION, "config": dict(self.config), "diagnostics": list(self.diagnostics)}
        arrays = {name: values for name, values in self._arrays().items() if values is not None}
        arrays["meta"] = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8)
        arrays |= {f"diagnostics/{name}": np.asarray(values) for name, values in self.diagnostics.items()}
        with atomic_file(target) as file:
            np.savez_compressed(file, **arrays)
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Change:
        """Read what `save` wrote."""
        try:
            stored = load_arrays(path)
            meta = json.loads(stored.pop("meta").tobytes())
            diagnostics = {name: stored.pop(f"diagnostics/{name}") for name in meta["diagnostics"]}
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise ValueError(f"Expected a file of changes at {path}, but it cannot be read: {error}.") from error
        if meta.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(
                f"Expected changes of schema version {SCHEMA_VERSION}, but {path} has {meta.get('schema_version')}."
            )
        known = {f.name for f in fields(cls)}
        arrays: dict[str, Any] = {name: values for name, values in stored.items() if name in known}
        try:
            return cls(**arrays, diagnostics=diagnostics, config=meta["config"])
        except TypeError as error:
            raise ValueError(f"Expected a file of changes at {path}, but arrays are missing: {error}.") from error

    def to_frame(
        self,
        ids: Sequence[Any] | None = None,
        channel_names: Sequence[str] | None = None,
        times: Sequence[Any] | None = None,
    ) -> pd.DataFrame:
        """One row a new cell: id, time, channel, contribution, mask, salient, score."""
        import pandas as pd

        n, steps, channels = self.contributions.shape
        labels = {
            "id": _labels("id", ids, n),
            "time": _labels("time", times, steps),
            "channel": _labels("channel", channel_names, channels),
        }
        index = pd.MultiIndex.from_product(list(labels.values()), names=list(labels))
        cells: dict[str, Any] = {
            "contribution": self.contributions,
            "mask": self.masks,
            "salient": self.binary,
            "score": self.scores,
        }
        if self.spread is not None:
            cells["spread"] = self.spread
        frame = pd.DataFrame({name: values.reshape(-1) for name, values in cells.items()}, index=index)
        shown = np.broadcast_to(self.new_cells[:, :, None], self.contributions.shape).reshape(-1)
        return frame[shown].reset_index()

    def summary(
        self,
        ids: Sequence[Any] | None = None,
        channel_names: Sequence[str] | None = None,
        most: int = 3,
    ) -> pd.DataFrame:
        """One row an instance: the answer before and after, its change, and the `most` channels that moved it most."""
        import pandas as pd

        n, _, channels = self.contributions.shape
        names, by_channel = _labels("channel", channel_names, channels), self.by_channel
        order = np.argsort(-np.abs(by_channel), axis=1, kind="stable")[:, :most]
        moved = [
            ", ".join(f"{names[c]} {row[c]:+.2f}" for c in few) for few, row in zip(order, by_channel, strict=True)
        ]
        columns = {
            "id": _labels("id", ids, n),
            "since": self.since,
            "until": self.until,
            "before": self.before,
            "after": self.after,
            "change": self.change,
            "elapsed": self.elapsed,
            "moved_by": moved,
        }
        return pd.DataFrame(columns)


def _labels(name: str, values: Sequence[Any] | None, length: int) -> list[Any]:
    if values is None:
        return list(range(length))
    if len(values) != length:
        raise ValueError(f"Expected {length} labels for {name}, but got {len(values)}.")
    return list(values)
