"""The built dataset: tensors, who they belong to, how they were made, and a digest of every byte."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._paths import local_path
from dynamask_mlflow.data.errors import DataError, DatasetMissingError
from dynamask_mlflow.data.preprocess import Preprocessing

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
META = "dataset.json"  # written last: a folder without it is no dataset
_ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]{0,49}")
_ARRAYS = ("x", "observed", "ids", "patient_ids", "labels", "splits", "windows", "admitted")


@dataclass(frozen=True, eq=False)
class StayDataset:
    """N stays of T hours and d channels.

    Attributes:
        x: (N, T, d) float32, filled and standardised.
        observed: (N, T, d) bool, True where something was measured in that hour.
        ids: (N,) stays. patient_ids: (N,) patients.
        labels: (N,) float32, 0, 1 or NaN where unknown.
        splits: (N,) "train", "validation", "test" or "later".
        windows: (N,) the period for audits, "" where there is none.
        admitted: (N,) datetime64[s], NaT where there is no clock.
        times: (T,) hours since admission at which the blocks begin.
        channel_names: d names.
        preprocessing: the statistics, to be stored with a model that is trained on this.
        attributes: name -> (N,) text, coarse facts about a stay for subgroups and slices: "sex", "age_group", "unit",
            "charting"; "" where unknown.
        report: the source, exclusions with counts, findings, settings (JSON-able).
    """

    x: NDArray[np.float32]
    observed: NDArray[np.bool_]
    ids: NDArray[Any]
    patient_ids: NDArray[Any]
    labels: NDArray[np.float32]
    splits: NDArray[np.str_]
    windows: NDArray[np.str_]
    admitted: NDArray[np.datetime64]
    times: tuple[float, ...]
    channel_names: tuple[str, ...]
    preprocessing: Preprocessing
    report: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.x)
        if self.x.ndim != 3 or self.x.shape[1:] != (len(self.times), len(self.channel_names)):
            expected = f"(N, {len(self.times)}, {len(self.channel_names)})"
            raise DataError(f"Expected x of shape {expected}, but got {self.x.shape}.")
        if self.observed.shape != self.x.shape:
            raise DataError(f"Expected observed of shape {self.x.shape}, but got {self.observed.shape}.")
        for name in _ARRAYS[2:]:
            if getattr(self, name).shape != (n,):
                raise DataError(f"Expected {name} of shape ({n},), but got {getattr(self, name).shape}.")
        for name, column in self.attributes.items():
            if not _ATTRIBUTE.fullmatch(name):
                raise DataError(f"Expected attributes named by small letters, digits and '_', but got {name!r}.")
            if column.shape != (n,):
                raise DataError(f"Expected the attribute {name} of shape ({n},), but got {column.shape}.")

    def __len__(self) -> int:
        return len(self.x)

    @property
    def digest(self) -> str:
        """A hash of every byte of the arrays, the names and the statistics; the report does not count."""
        total = hashlib.sha256()
        for name in _ARRAYS:
            array = np.ascontiguousarray(getattr(self, name))
            total.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
            total.update(array.view(np.uint8).reshape(-1).data if array.size else b"")
        for name, column in sorted(self.attributes.items()):
            total.update("\0".join([name, *column.tolist()]).encode())
        names = [self.channel_names, self.times, self.preprocessing.to_dict()]
        total.update(json.dumps(names, sort_keys=True).encode())
        return total.hexdigest()[:32]

    def select(self, chosen: NDArray[Any]) -> Self:
        """Some of the stays, by positions or booleans."""
        attributes = {name: column[chosen] for name, column in self.attributes.items()}
        return replace(self, attributes=attributes, **{name: getattr(self, name)[chosen] for name in _ARRAYS})

    def part(self, split: str) -> Self:
        """The stays of one split."""
        chosen = self.splits == split
        if not chosen.any():
            present = ", ".join(sorted(set(self.splits.tolist())))
            raise DataError(f"Expected stays in the split {split!r}, but there are only: {present}.")
        return self.select(chosen)

    def window(self, *names: str) -> Self:
        """The stays of one or more windows, for instance two months."""
        chosen = np.isin(self.windows, names)
        if not chosen.any():
            present = ", ".join(sorted(set(self.windows.tolist())))
            raise DataError(f"Expected stays in the windows {', '.join(names)}, but there are only: {present}.")
        return self.select(chosen)

    def sequence_arrays(self, observed: bool = True) -> dict[str, Any]:
        """What `as_sequences` and `mlflow.data.from_sequences` take: arrays and names, and targets if all are known.

        Args:
            observed: whether only measured cells may be salient, and a model may take which they are. Without it
                filled-in values may be salient; the report still tells them apart.
        """
        known = bool(np.isfinite(self.labels).all())
        return {
            "x": self.x,
            "targets": self.labels.astype(np.int64) if known else None,
            "ids": [str(stay) for stay in self.ids],
            "channel_names": self.channel_names,
            "times": [int(hour) if float(hour).is_integer() else hour for hour in self.times],
            "observed": self.observed if observed else None,
            "measured": self.observed,
        }

    def frame(self) -> pd.DataFrame:
        """One row a stay: everything but the tensors."""
        import pandas as pd

        return pd.DataFrame({name: getattr(self, name) for name in _ARRAYS[2:]} | dict(self.attributes))

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Write a folder that appears whole or not at all: it is built beside its place and moved there."""
        target = _folder(path)
        if target.exists() and not overwrite:
            raise DataError(f"Expected no dataset at {target}, but there is one; ask to overwrite it.")
        if target.exists() and not (target / META).is_file() and (target.is_file() or any(target.iterdir())):
            raise DataError(f"Expected a dataset or nothing at {target}, but there is something else.")
        target.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.building-"))
        try:
            for name in _ARRAYS:
                np.save(building / f"{name}.npy", getattr(self, name), allow_pickle=False)
            for name, column in self.attributes.items():
                np.save(building / attribute_file(name), column, allow_pickle=False)
            meta = {
                "schema_version": SCHEMA_VERSION,
                "digest": self.digest,
                "times": self.times,
                "channel_names": self.channel_names,
                "preprocessing": self.preprocessing.to_dict(),
                "attributes": list(self.attributes),
                "report": dict(self.report),
            }
            (building / META).write_text(json.dumps(meta, indent=2), encoding="utf-8")
            building.chmod(0o755)
            if target.exists():
                replaced = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.replaced-"))
                target.rename(replaced / target.name)
                building.rename(target)
                shutil.rmtree(replaced)
            else:
                building.rename(target)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        return target

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], verify: bool = True, rows: NDArray[np.intp] | None = None
    ) -> StayDataset:
        """Read what `save` wrote.

        Args:
            verify: compare the digest of every byte.
            rows: positions of the stays to read; nothing else is read, and nothing is verified.
        """
        folder = _folder(path)
        meta = read_meta(folder)
        try:
            arrays = {name: _read(folder / f"{name}.npy", rows) for name in _ARRAYS}
            attributes = {name: _read(folder / attribute_file(name), rows) for name in meta.get("attributes", ())}
        except (OSError, ValueError, EOFError, MemoryError) as error:
            kind = DatasetMissingError if isinstance(error, OSError) else DataError
            raise kind(f"Expected a whole dataset at {folder}, but it cannot be read: {error}.") from error
        dataset = cls(
            **arrays,
            times=tuple(meta["times"]),
            channel_names=tuple(meta["channel_names"]),
            preprocessing=Preprocessing.from_dict(meta["preprocessing"]),
            report=meta["report"],
            attributes=attributes,
        )
        if verify and rows is None and dataset.digest != meta["digest"]:
            raise DataError(f"Expected the digest {meta['digest']} at {folder}, but the files give {dataset.digest}.")
        return dataset


def _read(path: Path, rows: NDArray[np.intp] | None) -> NDArray[Any]:
    """Mapped if some rows are wanted: a shard of a large dataset costs what its own stays cost."""
    if rows is None:
        return np.asarray(np.load(path, allow_pickle=False))
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)[rows])


def attribute_file(name: str) -> str:
    return f"attribute-{name}.npy"


def _folder(path: str | os.PathLike[str]) -> Path:
    try:
        return local_path(path, "the dataset's folder")
    except ValueError as error:
        raise DataError(str(error)) from error


def read_meta(folder: Path) -> dict[str, Any]:
    """The description of a built dataset, without its tensors."""
    if not (folder / META).is_file():
        raise DatasetMissingError(f"Expected a built dataset at {folder}, but there is no {META}.")
    try:
        meta: dict[str, Any] = json.loads((folder / META).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"Expected a built dataset at {folder}, but its {META} cannot be read: {error}.") from error
    if not isinstance(meta, dict):
        raise DataError(f"Expected a JSON object in {folder / META}, but got {type(meta).__name__}.")
    if meta.get("schema_version") != SCHEMA_VERSION:
        got = meta.get("schema_version")
        raise DataError(f"Expected a dataset of schema version {SCHEMA_VERSION}, but {folder} has {got}.")
    return meta
