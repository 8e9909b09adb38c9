"""Windows of a built dataset: which stays belong to a month, a day or a range, and their tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._paths import local_path
from dynamask_mlflow._provenance import digest
from dynamask_mlflow.audit.errors import AuditError, NoDataError
from dynamask_mlflow.data.dataset import StayDataset, attribute_file, read_meta
from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences

_PERIOD = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
ALL = "all"


@dataclass(frozen=True)
class Window:
    """A stretch of admission times.

    Attributes:
        label: as it was written: "2026", "2026-03", "2026-03-05", "2026-01..2026-03" (both ends belong to it), "all".
        start, stop: the half-open interval [start, stop) in ISO form; None for "all".
    """

    label: str
    start: str | None
    stop: str | None

    @property
    def stop_ms(self) -> int:
        """The end in milliseconds: the same for every audit of the window, so that a rerun adds nothing."""
        if self.stop is None:
            return 0
        return int(np.datetime64(self.stop, "ms").astype(np.int64))

    def holds(self, label: str) -> bool:
        """Whether a window with this label lies within this one."""
        if label == self.label or self.start is None or self.stop is None:
            return True
        try:
            other = parse_window(label)
        except AuditError:
            return False  # a label that is no date
        return other.start is not None and self.start <= other.start and str(other.stop) <= self.stop


def parse_window(text: str) -> Window:
    """Read a window."""
    label = text.strip()
    if label == ALL:
        return Window(ALL, None, None)
    first, _, last = label.partition("..")
    if not _PERIOD.fullmatch(first) or (".." in label and not _PERIOD.fullmatch(last)):
        raise AuditError(f"Expected a window such as 2026-03, 2026-03-05, 2026-01..2026-03 or all, but got {text!r}.")
    last = last or first
    try:
        start = np.datetime64(first)
        stop = np.datetime64(last) + 1
    except ValueError as error:
        raise AuditError(f"Expected a window of dates that exist, but got {text!r}.") from error
    interval = Window(label, str(start.astype("datetime64[s]")), str(stop.astype("datetime64[s]")))
    if start.astype("datetime64[s]") >= stop.astype("datetime64[s]"):
        raise AuditError(f"Expected a window that ends after it begins, but got {text!r}.")
    return interval


def find_rows(data: str, window: Window, split: str | None = None) -> NDArray[np.intp]:
    """Positions of the stays that were admitted in the window, and belong to the split if there is one.

    A stay without an admission time belongs to the window if its own label, such as 2026-03, lies within.
    """
    folder = _folder(data)
    admitted, labels, splits = (_array(folder, name) for name in ("admitted", "windows", "splits"))
    chosen = np.ones(len(admitted), dtype=bool)
    if window.start is not None:
        begin, end = np.datetime64(window.start), np.datetime64(window.stop)
        timeless = np.isnat(admitted)
        chosen = ~timeless & (admitted >= begin) & (admitted < end)
        if timeless.any():
            inside = [label for label in np.unique(labels[timeless]).tolist() if window.holds(label)]
            chosen |= timeless & np.isin(labels, inside)
    if split is not None:
        chosen &= splits == split
    if not chosen.any():
        where = f"the window {window.label}" + (f" and the split {split!r}" if split else "")
        known = sorted(set(labels[labels != ""].tolist()))
        spread = f"its windows are {known[0]} to {known[-1]}" if known else "it has no calendar"
        raise NoDataError(f"Expected stays in {where} of {data}, but there are none; {spread}.")
    return np.flatnonzero(chosen)


def draw(rows: NDArray[np.intp], count: int | None, seed: int, label: str) -> NDArray[np.intp]:
    """`count` of the rows, the same for the same seed and window, in order of their position."""
    if count is None or count >= len(rows):
        return rows
    rng = np.random.default_rng([seed, int(digest(label), 16)])
    return np.sort(rng.permutation(rows)[:count])


def load_stays(data: str, rows: NDArray[np.intp]) -> tuple[Sequences, NDArray[np.str_]]:
    """The sequences of some stays and their patients, reading no more than those from disk."""
    stays = StayDataset.load(_folder(data), rows=rows)
    return as_sequences(**stays.sequence_arrays() | {"targets": None}), stays.patient_ids.astype(np.str_)


def read_arrays(data: str, names: Sequence[str], rows: NDArray[np.intp]) -> list[NDArray[Any]]:
    """Some arrays of some stays."""
    folder = _folder(data)
    return [np.asarray(_array(folder, name)[rows]) for name in names]


def attribute_names(data: str) -> list[str]:
    """The arrays of the dataset that hold attributes of the stays."""
    return [attribute_file(name).removesuffix(".npy") for name in read_meta(_folder(data)).get("attributes", ())]


def load_outcomes(data: str, rows: NDArray[np.intp]) -> dict[str, float]:
    """Stay -> its outcome, where it is known."""
    ids, labels = read_arrays(data, ("ids", "labels"), rows)
    return {str(stay): float(label) for stay, label in zip(ids, labels, strict=True) if np.isfinite(label)}


def dataset_digest(data: str) -> str:
    """The digest with which the dataset was written."""
    return str(read_meta(_folder(data))["digest"])


def dataset_features(data: str) -> str:
    """The feature set with which the dataset was built, by name or path."""
    meta = read_meta(_folder(data))
    return str(meta["report"].get("config", {}).get("features") or meta["preprocessing"]["feature_set"])


def dataset_channels(data: str) -> tuple[str, ...]:
    return tuple(read_meta(_folder(data))["channel_names"])


def _folder(data: str) -> Path:
    try:
        folder = local_path(data, "data")
        read_meta(folder)
    except (DataError, OSError, ValueError) as error:
        raise AuditError(str(error)) from error
    return folder


def _array(folder: Path, name: str) -> NDArray[Any]:
    """Mapped, not read: a shard of a large dataset costs what its own stays cost."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array
