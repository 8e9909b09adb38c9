"""What is known of a stay beside its inputs: attributes, the time of admission, values by shift of the day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._paths import local_path
from dynamask_mlflow.audit.arrays import ExplainedWindow
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.statistics import Codes, decile_codes
from dynamask_mlflow.audit.windows import read_arrays
from dynamask_mlflow.data.dataset import attribute_file, read_meta

# Shifts of the day by the clock: name -> first hour; each lasts until the next begins.
SHIFTS = {"day": 6, "evening": 14, "night": 22}
CLOCK = ("weekday", "admitted_at")
_PIECE = 2000  # stays whose inputs are read at a time


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
    names = np.asarray(ids).astype(np.str_)
    if config.hash_ids:
        from dynamask_mlflow.evaluation.privacy import hashed

        names = np.asarray([hashed(name) for name in names], dtype=np.str_)
    chosen = known_attributes(data) if config.slices is None else tuple(dict.fromkeys((*config.slices, *config.by)))
    chosen = tuple(name for name in chosen if name != "shift")
    check_attributes(data, chosen)
    attributes = {name: _attribute(data, name, rows, admitted) for name in chosen}
    wanted = config.slices is None or "shift" in config.slices
    codes = _shift_codes(data, rows, admitted, edges) if wanted else np.zeros((len(rows), 0), dtype=np.int8)
    return Facts(names, {name: column for name, column in attributes.items() if (column != "").any()}, codes)


def admission_days(data: str, rows: NDArray[np.intp], config: AuditConfig) -> dict[str, str]:
    """Stay -> day of admission, where it is known."""
    ids, admitted = read_arrays(data, ("ids", "admitted"), rows)
    names = [str(stay) for stay in ids]
    if config.hash_ids:
        from dynamask_mlflow.evaluation.privacy import hashed

        names = [hashed(name) for name in names]
    days = admitted.astype("datetime64[D]")
    return {name: str(day) for name, day in zip(names, days, strict=True) if not np.isnat(day)}


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
        told = np.where((days + 3) % 7 < 5, "weekday", "weekend")  # 1970-01-01 was a Thursday
    else:
        hours = admitted.astype("datetime64[h]").astype(np.int64) % 24
        told = np.asarray(list(SHIFTS), dtype=np.str_)[_shift_of(hours)]
    return np.where(unknown, "", told).astype(np.str_)


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
