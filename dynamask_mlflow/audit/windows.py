"""The stays of a built dataset: which belong to a window of time, their tensors, and what else is known of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._paths import local_path
from dynamask_mlflow._provenance import digest
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError, DataLostError, NoDataError
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.statistics import Codes, decile_codes
from dynamask_mlflow.data.dataset import StayDataset, attribute_file, read_meta
from dynamask_mlflow.data.errors import DatasetMissingError
from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences

_PERIOD = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
ALL = "all"
# Shifts of the day by the clock: name -> first hour; each lasts until the next begins.
SHIFTS = {"day": 6, "evening": 14, "night": 22}
CLOCK = ("weekday", "admitted_at")
_PIECE, _DIGESTED = 2000, 1000  # stays whose inputs are read at a time


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


def draw_more(
    population: NDArray[np.intp], rows: NDArray[np.intp], count: int | None, seed: int, label: str
) -> NDArray[np.intp]:
    """Further rows, so that they are `count` together with those that were drawn; all there are if it is None.

    >>> draw_more(np.arange(5), np.array([1, 3]), None, 0, "2026-03").tolist()
    [0, 2, 4]
    """
    rest = np.setdiff1d(population, rows)
    return draw(rest, None if count is None else max(0, count - len(rows)), seed, f"predicted {label}")


@dataclass(frozen=True, kw_only=True)
class DrawnStays:
    """Stays of a window: rows that are explained and rows that are predicted only, a digest of both, and how many
    stays they were drawn from.
    """

    rows: tuple[int, ...]
    predicted_rows: tuple[int, ...]
    content: str
    population: int


def draw_stays(
    data: str, population: NDArray[np.intp], config: AuditConfig, label: str, instances: int | None
) -> DrawnStays:
    """Draw so many stays of a population to be explained, and those that are predicted beside them."""
    rows = draw(population, instances, config.seed, label)
    more = draw_more(population, rows, config.predicted_instances, config.seed, label)
    return DrawnStays(
        rows=tuple(rows.tolist()),
        predicted_rows=tuple(more.tolist()),
        content=content_digest(data, np.concatenate([rows, more]), len(population)),
        population=len(population),
    )


def content_digest(data: str, rows: NDArray[np.intp], population: int) -> str:
    """Of the bytes of some stays: inputs, what was measured, outcomes, ids, patients, attributes.

    Also of how many stays they were drawn from.

    Other stays of the dataset do not count: a month that is appended leaves the audits of the months before alone.
    """
    sha = hashlib.sha256(f"{population}".encode())
    names = ("x", "observed", "ids", "patient_ids", "labels", *attribute_names(data))
    for piece in np.array_split(rows, max(1, -(-len(rows) // _DIGESTED))):
        for array in read_arrays(data, names, piece):
            sha.update(f"{array.dtype.str} {array.shape}".encode())
            sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:32]


def load_stays(data: str, rows: NDArray[np.intp]) -> tuple[Sequences, NDArray[np.str_]]:
    """The sequences of some stays and their patients, reading no more than those from disk."""
    stays = StayDataset.load(_folder(data), rows=rows)
    return as_sequences(**stays.sequence_arrays() | {"targets": None}), stays.patient_ids.astype(np.str_)


def read_arrays(data: str, names: Sequence[str], rows: NDArray[np.intp] | slice) -> list[NDArray[Any]]:
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


def with_outcomes(measured: ExplainedWindow, data: str, rows: NDArray[np.intp], config: AuditConfig) -> ExplainedWindow:
    """Explained stays with their outcomes; they may have become known after the masks were fitted."""
    return measured.with_number("label", named_outcomes(load_outcomes(data, rows), config))


def named_outcomes(outcomes: Mapping[str, float], config: AuditConfig) -> dict[str, float]:
    """Stay -> outcome, the stays as the audit names them."""
    names = _named(np.asarray(list(outcomes), dtype=np.str_), config)
    return dict(zip(names.tolist(), outcomes.values(), strict=True))


def dataset_digest(data: str) -> str:
    """The digest with which the dataset was written."""
    return str(read_meta(_folder(data))["digest"])


def dataset_features(data: str) -> str:
    """The feature set with which the dataset was built, by name or path."""
    meta = read_meta(_folder(data))
    return str(meta["report"].get("config", {}).get("features") or meta["preprocessing"]["feature_set"])


def constant_channels(data: str, rows: NDArray[np.intp]) -> tuple[str, ...]:
    """Channels that were measured throughout and are the same all through each of these stays, such as the age."""
    names = dataset_channels(data)
    same = np.ones(len(names), dtype=bool)
    for piece in np.array_split(rows, max(1, -(-len(rows) // _PIECE))):
        x, observed = read_arrays(data, ("x", "observed"), piece)
        same &= (x == x[:, :1]).all(axis=(0, 1)) & observed.all(axis=(0, 1))
    return tuple(name for name, constant in zip(names, same, strict=True) if constant and len(rows))


def dataset_channels(data: str) -> tuple[str, ...]:
    return tuple(read_meta(_folder(data))["channel_names"])


@dataclass(frozen=True, eq=False)
class Facts:
    """Of N stays: attributes, name -> (N,) text, and (N, 3 d) codes of their means in each shift of the day."""

    ids: NDArray[np.str_]
    attributes: dict[str, NDArray[np.str_]]
    shift_codes: Codes


def known_attributes(data: str) -> tuple[str, ...]:
    """Attributes that the dataset has, and those that the time of admission gives."""
    return (*read_meta(local_path(data, "data")).get("attributes", ()), *CLOCK)


def check_attributes(data: str, names: tuple[str, ...]) -> None:
    known = known_attributes(data)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise AuditError(
            f"Expected subgroups by attributes of the stays ({', '.join(known)}), but got {', '.join(unknown)}; "
            "build the dataset anew, or add them to it with `StayDataset.attributes`."
        )


def with_facts(
    measured: ExplainedWindow, data: str, rows: NDArray[np.intp], config: AuditConfig, edges: NDArray[np.float64]
) -> ExplainedWindow:
    """Explained stays with their attributes and with the places of their values, shift by shift."""
    facts = read_facts(data, rows, config, edges)
    place = {str(stay): row for row, stay in enumerate(facts.ids)}
    order = np.array([place[str(stay)] for stay in measured.ids], dtype=np.intp)
    return replace(
        measured,
        attributes={name: column[order] for name, column in facts.attributes.items()},
        shift_codes=facts.shift_codes[order],
    )


def with_attributes(
    measured: ExplainedWindow, data: str, rows: NDArray[np.intp], config: AuditConfig
) -> ExplainedWindow:
    """Explained stays with their attributes alone."""
    chosen = config.with_options(slices=config.by)
    return with_facts(measured, data, rows, chosen, np.zeros((0, 0)))


def read_facts(data: str, rows: NDArray[np.intp], config: AuditConfig, edges: NDArray[np.float64]) -> Facts:
    ids, admitted = read_arrays(data, ("ids", "admitted"), rows)
    chosen = known_attributes(data) if config.slices is None else tuple(dict.fromkeys((*config.slices, *config.by)))
    chosen = tuple(name for name in chosen if name != "shift")
    check_attributes(data, chosen)
    attributes = {name: _attribute(data, name, rows, admitted) for name in chosen}
    wanted = config.slices is None or "shift" in config.slices
    codes = _shift_codes(data, rows, admitted, edges) if wanted else np.zeros((len(rows), 0), dtype=np.int8)
    return Facts(
        _named(ids, config), {name: column for name, column in attributes.items() if (column != "").any()}, codes
    )


def admission_days(data: str, rows: NDArray[np.intp], config: AuditConfig) -> dict[str, str]:
    """Stay -> day of admission, where it is known."""
    ids, admitted = read_arrays(data, ("ids", "admitted"), rows)
    days = admitted.astype("datetime64[D]")
    return {str(name): str(day) for name, day in zip(_named(ids, config), days, strict=True) if not np.isnat(day)}


def shift_numbers(admitted: NDArray[Any], times: Sequence[float]) -> NDArray[np.intp]:
    """(N, T): to which shift each step belongs by the clock; -1 without one."""
    begin = admitted.astype("datetime64[s]").astype(np.int64) / 3600
    clock = np.floor(begin[:, None] + np.asarray(times, dtype=np.float64)[None, :]).astype(np.int64) % 24
    return np.where(np.isnat(admitted)[:, None], -1, _shift_of(clock))


def shift_codes_of(
    x: NDArray[Any], observed: NDArray[np.bool_], shift: NDArray[np.intp], edges: NDArray[np.float64]
) -> Codes:
    """(N, 3 d) codes of the means of what was measured, shift after shift; `edges`: deciles of the stays' means."""
    codes = []
    for number in range(len(SHIFTS)):
        seen = observed & (shift == number)[:, :, None]
        count = seen.sum(axis=1)
        total = np.where(seen, x, 0.0).sum(axis=1, dtype=np.float64)
        codes.append(decile_codes(np.where(count > 0, total / np.maximum(count, 1), np.nan), edges[: x.shape[2]]))
    return np.concatenate(codes, axis=1)


def _named(ids: NDArray[Any], config: AuditConfig) -> NDArray[np.str_]:
    """The stays' ids as text, hashed if the settings say so."""
    if not config.hash_ids:
        return ids.astype(np.str_)
    from dynamask_mlflow.evaluation.privacy import hashed

    return np.asarray([hashed(str(stay)) for stay in ids], dtype=np.str_)


def _attribute(data: str, name: str, rows: NDArray[np.intp], admitted: NDArray[Any]) -> NDArray[np.str_]:
    if name in CLOCK:
        return _clock(name, admitted)
    path = Path(local_path(data, "data")) / attribute_file(name)
    column = np.load(path, mmap_mode="r", allow_pickle=False)[rows]
    return np.asarray(column, dtype=np.str_)


def _clock(name: str, admitted: NDArray[Any]) -> NDArray[np.str_]:
    """The kind of day, and the shift, at admission; "" without a clock."""
    unknown = np.isnat(admitted)
    if name == "weekday":
        days = admitted.astype("datetime64[D]").astype(np.int64)
        values = np.where((days + 3) % 7 < 5, "weekday", "weekend")  # 1970-01-01 was a Thursday
    else:
        hours = admitted.astype("datetime64[h]").astype(np.int64) % 24
        values = np.asarray(list(SHIFTS), dtype=np.str_)[_shift_of(hours)]
    return np.where(unknown, "", values).astype(np.str_)


def _shift_of(hours: NDArray[Any]) -> NDArray[np.intp]:
    """Position of the shift to which hours of the clock belong."""
    place = np.searchsorted(list(SHIFTS.values()), hours, side="right") - 1
    return np.where(place < 0, len(SHIFTS) - 1, place)


def _shift_codes(data: str, rows: NDArray[np.intp], admitted: NDArray[Any], edges: NDArray[np.float64]) -> Codes:
    """(N, 3 d): where the mean of what was measured in each shift lies among the deciles of the reference's stays."""
    meta = read_meta(local_path(data, "data"))
    if np.isnat(admitted).all():
        return np.zeros((len(rows), 0), dtype=np.int8)
    parts = []
    for piece in np.array_split(np.arange(len(rows)), max(1, -(-len(rows) // _PIECE))):
        x, observed = read_arrays(data, ("x", "observed"), rows[piece])
        parts.append(shift_codes_of(x, observed, shift_numbers(admitted[piece], meta["times"]), edges))
    return np.concatenate(parts)


def _folder(data: str) -> Path:
    try:
        folder = local_path(data, "data")
        read_meta(folder)
    except (DatasetMissingError, OSError) as error:
        raise DataLostError(str(error)) from error
    except ValueError as error:  # that of a schema too, a `DataError`
        raise AuditError(str(error)) from error
    return folder


def _array(folder: Path, name: str) -> NDArray[Any]:
    """Mapped, not read: a shard of a large dataset costs what its own stays cost."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array
