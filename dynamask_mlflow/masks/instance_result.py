"""What results of several instances share: the rows of some of them, joining parts, and a file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._npz import load_archive, save_archive

if TYPE_CHECKING:
    import pandas as pd

_APART = ("diagnostics", "config")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class InstanceResult(ABC):
    """Arrays of N rows, one an instance, as fields of a frozen dataclass; a field may be None.

    Attributes:
        kind: what a file holds, for its errors.
        schema_version: of a file.
        shared: fields that are not by instance, and the same in all parts that are joined.
        diagnostics: name -> (N,).
        config: how the result was made (JSON-able).
    """

    kind: ClassVar[str]
    schema_version: ClassVar[int]
    shared: ClassVar[tuple[str, ...]] = ()

    diagnostics: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    @abstractmethod
    def __len__(self) -> int:
        """N."""

    @property
    def target(self) -> str:
        """What was explained, as it was asked: "auto", "class:1", "step:5", ..."""
        return str(self.config.get("target", "auto"))

    def _described(self, cells: NDArray[np.bool_], direction: NDArray[np.int8]) -> str:
        """One line for `repr`: sizes, what was explained, which way the answers moved, how many cells are salient."""
        (n, steps, channels), words = cells.shape, {1: "raised", -1: "lowered", 0: "unchanged"}
        counts = {word: int((direction == way).sum()) for way, word in words.items()}
        moved = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        share = 100 * float(cells.mean()) if cells.size else 0.0
        return (
            f"{type(self).__name__}(N={n}, T={steps}, d={channels}; target {self.target!r}; "
            f"{moved}; {share:.2g} % of the cells salient)"
        )

    def __getitem__(self, index: Any) -> Self:
        """Some instances: an int, a slice, or an array of positions or booleans."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        return self._with_rows(lambda values: values[rows])

    def _arrays(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _APART}

    def _with_rows(self, take: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        taken: dict[str, Any] = {
            name: values if values is None or name in self.shared else take(values)
            for name, values in self._arrays().items()
        }
        diagnostics = {name: take(values) for name, values in self.diagnostics.items()}
        return type(self)(**taken, diagnostics=diagnostics, config=self.config)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Join parts of one configuration, in the order given."""
        if not parts:
            raise ValueError("Expected at least one part to concatenate, but got none.")
        first = parts[0]
        for part in parts[1:]:
            others = part._differences(first)
            if others:
                raise ValueError(
                    f"Expected {cls.kind} of one configuration and one target, but they differ in {', '.join(others)}."
                )

        def joined(values: list[Any]) -> Any:
            return None if any(value is None for value in values) else np.concatenate(values)

        rows = [name for name in first._arrays() if name not in cls.shared]
        known = [name for name in first.diagnostics if all(name in part.diagnostics for part in parts)]
        return cls(
            **{name: getattr(first, name) for name in cls.shared},
            **{name: joined([getattr(part, name) for part in parts]) for name in rows},
            diagnostics={name: joined([part.diagnostics[name] for part in parts]) for name in known},
            config=first.config,
        )

    def _differences(self, other: Self) -> list[str]:
        keys = sorted({*self.config, *other.config})
        settings = [key for key in keys if self.config.get(key) != other.config.get(key)]
        return settings + [n for n in self.shared if not np.array_equal(getattr(self, n), getattr(other, n))]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write an npz without pickle; the file appears whole or not at all."""
        meta = {
            "schema_version": self.schema_version,
            "config": dict(self.config),
            "diagnostics": list(self.diagnostics),
        }
        arrays = {name: values for name, values in self._arrays().items() if values is not None}
        arrays |= {f"diagnostics/{name}": np.asarray(values) for name, values in self.diagnostics.items()}
        return save_archive(Path(path), meta, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote."""
        meta, stored = load_archive(path, cls.kind)
        if meta.get("schema_version") != cls.schema_version:
            raise ValueError(
                f"Expected {cls.kind} of schema version {cls.schema_version}, but {path} has "
                f"{meta.get('schema_version')}."
            )
        known = {f.name for f in fields(cls)}
        try:
            diagnostics = {name: stored.pop(f"diagnostics/{name}") for name in meta["diagnostics"]}
            arrays: dict[str, Any] = {name: values for name, values in stored.items() if name in known}
            return cls(**arrays, diagnostics=diagnostics, config=meta["config"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"Expected a file of {cls.kind} at {path}, but some of it is missing: {error}.") from error


def cell_frame(
    columns: Mapping[str, NDArray[Any] | None],
    ids: Sequence[Any] | None = None,
    channel_names: Sequence[str] | None = None,
    times: Sequence[Any] | None = None,
) -> pd.DataFrame:
    """One row a cell of arrays (N, T, d), which stand in columns; one that is None is left out.

    The index is id, time and channel; numbers where there are no names.
    """
    import pandas as pd

    known = {name: values for name, values in columns.items() if values is not None}
    shape = next(iter(known.values())).shape
    given = {"id": ids, "time": times, "channel": channel_names}
    labels = [labels_of(name, values, size) for (name, values), size in zip(given.items(), shape, strict=True)]
    index = pd.MultiIndex.from_product(labels, names=list(given))
    return pd.DataFrame({name: values.reshape(-1) for name, values in known.items()}, index=index)


def labels_of(name: str, values: Sequence[Any] | None, length: int) -> list[Any]:
    """The given labels, or numbers; raises where there are more or fewer."""
    if values is None:
        return list(range(length))
    if len(values) != length:
        raise ValueError(f"Expected {length} labels for {name}, but got {len(values)}.")
    return list(values)
