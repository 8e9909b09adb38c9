"""Sequences with their names: arrays or collections of unequal lengths, checked once, when they are made."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow._npz import load_archive, save_archive
from dynamask_mlflow._paths import local_path
from dynamask_mlflow.evaluation.ragged import padded, padded_like

if TYPE_CHECKING:
    import torch

    from dynamask_mlflow.masks.binding import Binding
    from dynamask_mlflow.masks.config import ExplainConfig
    from dynamask_mlflow.masks.side_inputs import SideInputs

SCHEMA_VERSION = 1
_EXTRA = "extras/"
_MOST_CELLS = 2**22  # looked at at once, so that a check takes no memory to speak of


@dataclass(frozen=True, eq=False)
class Sequences:
    """N instances of T steps and d channels. Build it with `as_sequences`, which checks everything.

    Attributes:
        x: (N, T, d) float32, finite; what was NaN is filled, see `nan`.
        ids: N unique names. channel_names: d unique names. times: T labels, numbers or text.
        targets: (N,) one for each instance, (N, T) one for each step, or (N, C), (N, T, C) or (N, H, d) values.
        lengths: (N,) steps that exist; the rest of an instance is padding. None: all of them.
        observed: (N, T, d) True where a value was measured, not filled in. None: everywhere.
        extras: further inputs of the model, name -> (N, ...): static features (N, s), codes, time gaps, ...
        measured: (N, T, d) True where a value was measured at that step, for display alone: no model is given it, every
            cell may be salient, and the digest does not see it. None: as `observed` has it.
        nan: (N, T, d) True where the model is given NaN, see `given_x`. None: nowhere.
    """

    x: NDArray[np.float32]
    ids: tuple[str, ...]
    channel_names: tuple[str, ...]
    times: tuple[int | float | str, ...]
    targets: NDArray[Any] | None = None
    lengths: NDArray[np.int64] | None = None
    observed: NDArray[np.bool_] | None = None
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    measured: NDArray[np.bool_] | None = None
    nan: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Some instances, by position; all of them in their order are these very arrays, not copies."""
        if np.array_equal(rows, np.arange(len(self))):
            return self
        return type(self)(
            x=self.x[rows],
            ids=tuple(self.ids[row] for row in rows),
            channel_names=self.channel_names,
            times=self.times,
            targets=None if self.targets is None else self.targets[rows],
            lengths=None if self.lengths is None else self.lengths[rows],
            observed=None if self.observed is None else self.observed[rows],
            extras={name: values[rows] for name, values in self.extras.items()},
            measured=None if self.measured is None else self.measured[rows],
            nan=None if self.nan is None else self.nan[rows],
        )

    @property
    def given_x(self) -> NDArray[np.float32]:
        """(N, T, d) as the model takes it: x, or a copy with NaN."""
        return self.x if self.nan is None else np.where(self.nan, np.float32(np.nan), self.x)

    @property
    def side(self) -> SideInputs:
        """What a model may take beside x."""
        from dynamask_mlflow.masks.side_inputs import SideInputs

        return SideInputs(self.lengths, self.observed, self.extras, self.nan)

    def bind(self, network: torch.nn.Module, config: ExplainConfig) -> Binding:
        """A network and all that it is asked about these sequences.

        Raises:
            CallError: if it cannot be called with them.
        """
        import torch

        from dynamask_mlflow.masks.binding import Binding

        return Binding.of(network, torch.as_tensor(self.x), None, self.side, config)

    def observed_is_input(self, network: torch.nn.Module, config: ExplainConfig) -> bool:
        """Whether the network is given which cells were measured."""
        return self.observed is not None and self.bind(network, config).takes_observed

    @property
    def exists(self) -> NDArray[np.bool_] | None:
        """(N, T, 1) False in the padding; None when there is none."""
        if self.lengths is None:
            return None
        return (np.arange(self.x.shape[1]) < self.lengths[:, None])[:, :, None]

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """(N, T, d) cells that may be salient: they exist and were measured."""
        cells = np.broadcast_to(np.bool_(True) if self.exists is None else self.exists, self.x.shape)
        return cells if self.observed is None else cells & self.observed

    def digest(self) -> str:
        """A fingerprint over every byte of the values and every name."""
        sha = hashlib.sha256()
        extras = [self.extras[name] for name in sorted(self.extras)]
        for array in (self.given_x, self.targets, self.lengths, self.observed, *extras):
            if array is None:
                sha.update(b"none;")
                continue
            sha.update(f"{array.dtype.str}{array.shape};".encode())
            plain = np.array(array.tolist(), dtype=np.str_) if array.dtype == object else array
            sha.update(np.ascontiguousarray(plain).view(np.uint8).data)
        names: list[Any] = [self.ids, self.channel_names, self.times]
        sha.update(json.dumps([*names, sorted(self.extras)] if self.extras else names).encode())
        return sha.hexdigest()[:10]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write an npz without pickle; the file appears whole or not at all."""
        target = local_path(path, "the file of sequences")
        names = {"ids": self.ids, "channel_names": self.channel_names, "times": self.times}
        optional = {name: getattr(self, name) for name in ("targets", "lengths", "observed", "measured")}
        if self.targets is not None and self.targets.dtype == object:
            optional["targets"] = np.array(self.targets.tolist())
        arrays = {"x": self.given_x, **{name: values for name, values in optional.items() if values is not None}}
        arrays |= {f"{_EXTRA}{name}": values for name, values in self.extras.items()}
        return save_archive(target, {"sequences": SCHEMA_VERSION, **names}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sequences:
        """Read what `save` wrote."""
        meta, stored = load_archive(path, "sequences")
        version, names = meta.get("sequences"), {name: meta.get(name) for name in ("ids", "channel_names", "times")}
        if version != SCHEMA_VERSION:
            raise ValueError(f"Expected sequences of schema version {SCHEMA_VERSION}, but {path} has {version}.")
        if "x" not in stored or not all(isinstance(given, list) for given in names.values()):
            raise ValueError(f"Expected a file of sequences at {path}, but x, ids, channel_names or times are missing.")
        return as_sequences(
            stored["x"],
            targets=stored.get("targets"),
            **names,
            lengths=stored.get("lengths"),
            observed=stored.get("observed"),
            measured=stored.get("measured"),
            extras={name.removeprefix(_EXTRA): values for name, values in stored.items() if name.startswith(_EXTRA)},
        )


def as_sequences(
    x: Any,
    *,
    targets: ArrayLike | None = None,
    ids: Sequence[Any] | None = None,
    channel_names: Sequence[str] | None = None,
    times: Sequence[Any] | None = None,
    lengths: ArrayLike | None = None,
    observed: Any = None,
    extras: Mapping[str, Any] | None = None,
    measured: Any = None,
) -> Sequences:
    """Check arrays and names against each other; every error says what was expected and what came.

    `x` may be a collection of sequences of unequal lengths, see `padded`; what belongs to its steps may be lists, too.
    An array of float32 is not copied, and never written to: leave it as it is until the sequences are no longer used.
    """
    collection = padded(x)
    if collection is not None:
        if lengths is not None:
            raise ValueError("Expected no lengths with sequences of unequal lengths, which tell them, but got some.")
        x, lengths = collection.x, collection.lengths
        channel_names = collection.channel_names if channel_names is None else channel_names
        observed = None if observed is None else padded_like(observed, collection.lengths)
        measured = None if measured is None else padded_like(measured, collection.lengths)
        extras = {name: padded_like(given, collection.lengths) for name, given in (extras or {}).items()}
    values = _numbers(x)
    n, steps, channels = values.shape
    names = _names("channel_names", channel_names, channels, [f"channel_{i}" for i in range(channels)])
    labels = _names("ids", ids, n, [str(i) for i in range(n)])
    _refuse_text("times", times)
    ticks = tuple(_plain(t) for t in times) if times is not None else tuple(range(steps))
    if len(ticks) != steps:
        raise ValueError(f"Expected {steps} times, one a step, but got {len(ticks)}.")
    _check_text("times", [tick for tick in ticks if isinstance(tick, str)])
    valid = _lengths(lengths, n, steps)
    seen = _flags("observed", observed, values.shape)
    shown = _flags("measured", measured, values.shape)
    further = _extras(extras, n)
    if valid is not None:
        # What lies in the padding means nothing: one fixed value keeps NaN out and the digest stable.
        exists = np.arange(steps) < valid[:, None]
        values = np.where(exists[:, :, None], values, np.float32(0))
    nan = None
    if _anywhere(np.isnan, values):
        from dynamask_mlflow.masks.side_inputs import SideInputs, without_nan

        values, side = without_nan(values, SideInputs(observed=seen))
        seen, nan = side.observed, side.nan
    answers = _targets(targets, n, steps, valid)
    checked = Sequences(values, labels, names, ticks, answers, valid, seen, further, shown, nan)
    _refuse_infinite(checked)
    return checked


def _flags(name: str, given: Any, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    if given is None:
        return None
    seen = np.asarray(given)
    if seen.shape != shape:
        raise ValueError(f"Expected {name} of the shape of x, {shape}, but got {seen.shape}.")
    if seen.dtype != np.bool_ and not (seen.dtype.kind in "iuf" and np.isin(seen, (0, 1)).all()):
        raise ValueError(f"Expected {name} to be True or False (1 or 0) in every cell, but got other {seen.dtype}.")
    return seen.astype(np.bool_, copy=False)


def _extras(extras: Mapping[str, Any] | None, n: int) -> dict[str, NDArray[Any]]:
    if not extras:
        return {}
    from dynamask_mlflow.masks.side_inputs import check_extras

    return check_extras(extras, n)


def _numbers(x: ArrayLike) -> NDArray[np.float32]:
    raw = np.asarray(x)
    if raw.dtype == object or not (np.issubdtype(raw.dtype, np.number) or raw.dtype == np.bool_):
        raise ValueError(
            f"Expected x to hold numbers, but got an array of {raw.dtype}. Sequences of unequal lengths are given as a "
            "list of arrays (T_i, d)."
        )
    if np.iscomplexobj(raw):
        raise ValueError(f"Expected x to hold real numbers, but got {raw.dtype}.")
    if raw.ndim != 3 or 0 in raw.shape:
        flat = " Make a step's values channels, x.reshape(N, T, -1), and undo it in the model." if raw.ndim > 3 else ""
        raise ValueError(f"Expected x of shape (N, T, d), none of them 0, but got {raw.shape}.{flat}")
    with np.errstate(over="ignore"):
        return np.asarray(raw, dtype=np.float32)


def _refuse_infinite(sequences: Sequences) -> None:
    if _anywhere(np.isinf, sequences.x):
        bad = np.isinf(sequences.x)
        i, t, c = (int(v) for v in np.argwhere(bad)[0])
        raise ValueError(
            f"Expected finite x, or NaN where nothing was measured, but {int(bad.sum())} cells are infinite, the first "
            f"at id {sequences.ids[i]!r}, time {sequences.times[t]!r}, channel {sequences.channel_names[c]!r}."
        )


def _anywhere(question: np.ufunc, x: NDArray[Any]) -> bool:
    """Whether any cell is so; looked at in parts."""
    rows = max(1, _MOST_CELLS // (x.shape[1] * x.shape[2]))
    return any(bool(question(x[start : start + rows]).any()) for start in range(0, len(x), rows))


def _names(what: str, given: Sequence[Any] | None, count: int, default: list[str]) -> tuple[str, ...]:
    _refuse_text(what, given)
    names = tuple(str(_plain(name)) for name in given) if given is not None else tuple(default)
    if len(names) != count:
        raise ValueError(f"Expected {count} {what}, but got {len(names)}.")
    if len(set(names)) < count:
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"Expected unique {what}, but {twice!r} appears more than once.")
    _check_text(what, names)
    return names


def _refuse_text(what: str, given: Any) -> None:
    if isinstance(given, str):  # which would be read letter by letter
        raise ValueError(f"Expected a list of {what}, but got the text {given!r}.")


def _check_text(what: str, names: Sequence[str]) -> None:
    """Refuse what no file can hold: halves of characters, as wrongly decoded bytes have them."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"Expected {what} that UTF-8 can hold, but got {name!a}.") from error


def _plain(value: Any) -> int | float | str:
    """A label that JSON can hold."""
    value = value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)


def _lengths(lengths: ArrayLike | None, n: int, steps: int) -> NDArray[np.int64] | None:
    if lengths is None:
        return None
    valid = np.asarray(lengths)
    if valid.shape != (n,) or not np.issubdtype(valid.dtype, np.integer):
        raise ValueError(f"Expected {n} whole numbers as lengths, but got {valid.dtype} of shape {valid.shape}.")
    if valid.min() < 1 or valid.max() > steps:
        raise ValueError(f"Expected lengths in [1, {steps}], but got [{valid.min()}, {valid.max()}].")
    return None if bool((valid == steps).all()) else valid.astype(np.int64)


def _targets(targets: ArrayLike | None, n: int, steps: int, lengths: NDArray[np.int64] | None) -> NDArray[Any] | None:
    if targets is None:
        return None
    values = np.asarray(targets)
    if values.ndim not in (1, 2, 3) or len(values) != n:
        raise ValueError(
            f"Expected targets for {n} instances, of shape ({n},) or ({n}, {steps}), but got {values.shape}."
        )
    if values.dtype == object and not all(isinstance(value, str | int | float) for value in values.ravel()):
        kinds = sorted({type(value).__name__ for value in values.ravel()})
        raise ValueError(f"Expected targets that are numbers or names, but got {', '.join(kinds)}.")
    # Values may be a forecast, (N, H, d).
    if values.ndim == 3 and values.shape[1] != steps and not np.issubdtype(values.dtype, np.floating):
        raise ValueError(f"Expected targets of shape ({n}, {steps}, C), but got {values.shape}.")
    if np.issubdtype(values.dtype, np.floating):
        per_step = values.ndim > 1 and values.shape[1] == steps and lengths is not None
        checked = values
        if per_step:
            inside = np.arange(steps) < np.asarray(lengths)[:, None]
            checked = values[inside]
        bad = int((~np.isfinite(checked)).sum())
        if bad:
            raise ValueError(f"Expected finite targets, but {bad} are NaN or infinite.")
    return values
