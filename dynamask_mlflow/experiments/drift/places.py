"""How often the right place of a fault is named: in a ward, charting system, shift or item id, or everywhere.

Inputs of the synthetic hospital are changed; nothing is explained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.comparison import ComparisonResult, slices_of
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.culprit import find_culprits
from dynamask_mlflow.audit.explain_window import input_summary
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.items import ItemRows, read_items
from dynamask_mlflow.audit.statistics import input_test, permuted_labels, slice_input_test
from dynamask_mlflow.audit.verdict import Violation
from dynamask_mlflow.audit.windows import SHIFTS, Facts, shift_codes_of, shift_numbers
from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.experiments.cache import cache_folder
from dynamask_mlflow.experiments.drift.data import hospital_dataset, hospital_tables

Report = Callable[[str], None]
_PERMUTATIONS = 1999
# An arterial line is charted under its own item id, and 40 % of the stays have one.
ITEM, ITEM_CHANNEL = "220050", "SysBP"


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        what: in words. channel, factor: whose values are multiplied by what.
        where: name of the slice, as the search calls it; "" for everywhere.
    """

    what: str
    channel: str
    factor: float
    where: str


FAULTS = (
    Fault("HeartRate x 1.3 in the ward MICU", "HeartRate", 1.3, "unit MICU"),
    Fault("HeartRate x 1.3 in the ward CSRU", "HeartRate", 1.3, "unit CSRU"),
    Fault("SpO2 x .9 in the charting system metavision", "SpO2", 0.9, "charting metavision"),
    Fault("RespRate x 1.5 in the night shift", "RespRate", 1.5, "shift night"),
    Fault(f"{ITEM_CHANNEL} x .7 under the item {ITEM}", ITEM_CHANNEL, 0.7, f"item {ITEM}"),
    Fault("HeartRate x 1.3 everywhere", "HeartRate", 1.3, ""),
    Fault("SpO2 x .9 everywhere", "SpO2", 0.9, ""),
    Fault("LACTATE x 9 everywhere", "LACTATE", 9.0, ""),
    Fault(f"{ITEM_CHANNEL} x .7 everywhere", ITEM_CHANNEL, 0.7, ""),
)


@dataclass(frozen=True)
class PlaceRow:
    """One line of the table: how often the fault was seen at all, and what was named then."""

    what: str
    where: str
    seen: float
    right: float
    wrong: float
    windows: int


def run_places(
    stays: int = 8000, windows: int = 100, size: int = 200, report: Report = lambda _: None
) -> list[PlaceRow]:
    """All rows. `size`: stays of a window; references have 500."""
    dataset = hospital_dataset(stays, 0)
    pool = dataset.part("test")
    items = _items(pool, stays)
    rows = []
    for fault in FAULTS:
        rows.append(_row(pool, items, fault, windows, size))
        report(f"{fault.what}: {rows[-1]}")
    return rows


def as_table(rows: list[PlaceRow]) -> list[list[str]]:
    head = ["fault", "place", "a finding", "right place first", "false place", "windows", "wanted"]
    body = [
        [
            row.what,
            row.where or "everywhere",
            f"{row.seen:.2f}",
            f"{row.right:.2f}" if row.where else "-",
            f"{row.wrong:.2f}",
            str(row.windows),
            "right at least .85" if row.where else "false at most .05",
        ]
        for row in rows
    ]
    return [head, *body]


def _row(pool: StayDataset, items: ItemRows, fault: Fault, windows: int, size: int) -> PlaceRow:
    ill, ill_items = plant(pool, items, fault)
    edges = _summary(pool, None).input_edges()
    healthy, faulty = (_summary(part, edges) for part in (pool, ill))
    seen, right, wrong = 0, 0, 0
    for time in range(windows):
        rng = np.random.default_rng([31, time])
        named = _audit(healthy, faulty, items, ill_items, fault, size, rng)
        seen += named is not None
        right += named is not None and named[:1] == (fault.where,)
        wrong += named is not None and bool(named) and named[:1] != (fault.where,)
    return PlaceRow(fault.what, fault.where, seen / windows, right / windows, wrong / windows, windows)


def _audit(
    healthy: ExplainedWindow,
    faulty: ExplainedWindow,
    items: ItemRows,
    ill_items: ItemRows,
    fault: Fault,
    size: int,
    rng: np.random.Generator,
) -> tuple[str, ...] | None:
    """What is named in one window; None if its inputs show nothing."""
    order = rng.permutation(len(healthy))
    before, now = healthy.take(order[:500]), faulty.take(order[500 : 500 + size])
    current = np.arange(len(before) + len(now)) >= len(before)
    patients = np.concatenate([before.patients, now.patients])
    labels = permuted_labels(current, patients, _PERMUTATIONS, int(rng.integers(1 << 30)))
    test = input_test(np.concatenate([before.codes, now.codes]), labels)
    config = AuditConfig(progress=False)
    in_slices = slice_input_test(np.concatenate([before.codes, now.codes]), labels, slices_of((before, now)))
    if not test.moved(config.input_level) and not (in_slices and in_slices[0].p_value <= config.input_level):
        return None
    result = ComparisonResult(
        channel_names=now.channel_names,
        times=now.times,
        instances=len(now),
        reference_instances=len(before),
        sampled=len(now),
        failures=0,
        inputs=test,
        slice_inputs=in_slices,
    )
    violations = [Violation(kind="inputs", subject=fault.channel, message="")]

    def look(channel: str) -> ItemRows | None:
        if channel != ITEM_CHANNEL:
            return None
        first, second = items.of(before.ids), ill_items.of(now.ids)
        return ItemRows(
            ids=np.concatenate([first.ids, second.ids]),
            codes=np.concatenate([first.codes, second.codes]),
            means=np.concatenate([first.means, second.means]),
        )

    found = find_culprits(result, violations, before, now, config, items=look)
    return found[0].names if found else ()


def plant(pool: StayDataset, items: ItemRows, fault: Fault) -> tuple[StayDataset, ItemRows]:
    """The stays, and what was charted under each code, with the fault in its place."""
    place, stats = pool.channel_names.index(fault.channel), pool.preprocessing
    mean, std = stats.mean[place], stats.std[place]
    cells, ill_items = _cells(pool, items, fault)
    raw = pool.x[:, :, place] * std + mean
    x = pool.x.copy()
    x[:, :, place] = np.where(cells & pool.observed[:, :, place], (raw * fault.factor - mean) / std, x[:, :, place])
    return replace(pool, x=x), ill_items


def _cells(pool: StayDataset, items: ItemRows, fault: Fault) -> tuple[NDArray[np.bool_], ItemRows]:
    kind, _, value = fault.where.partition(" ")
    shape = pool.x.shape[:2]
    everything = np.ones(shape, dtype=bool)
    if kind == "item":
        under = items.codes == value
        having = set(items.ids[under].tolist())
        cells = np.array([str(stay) in having for stay in pool.ids])[:, None] & everything
    elif kind == "shift":
        cells = shift_numbers(pool.admitted, pool.times) == list(SHIFTS).index(value)
        return cells, items
    elif kind:
        cells = (pool.attributes[kind] == value)[:, None] & everything
    else:
        cells = everything
    if fault.channel != ITEM_CHANNEL:
        return cells, items
    ill = {str(stay) for stay, touched in zip(pool.ids, cells[:, 0], strict=True) if touched}
    touched = np.array([name in ill for name in items.ids.tolist()])
    if kind == "item":
        touched &= items.codes == value
    return cells, replace(items, means=np.where(touched, items.means * fault.factor, items.means))


def _summary(stays: StayDataset, edges: NDArray[np.float64] | None) -> ExplainedWindow:
    """What an audit would know of the inputs; attention and predictions are left out."""
    sequences = as_sequences(
        stays.x,
        ids=[str(stay) for stay in stays.ids],
        channel_names=stays.channel_names,
        times=list(stays.times),
        observed=stays.observed,
    )
    values, missing = input_summary(sequences)
    n, steps, channels = stays.x.shape
    measured = ExplainedWindow(
        ids=stays.ids.astype(np.str_),
        patients=stays.patient_ids.astype(np.str_),
        by_channel=np.full((n, channels), 1 / channels),
        by_time=np.full((n, steps), 1 / steps),
        numbers={"risk": np.zeros(n)},
        values=values,
        missing=missing,
        codes=np.zeros((n, 0), dtype=np.int8),
        effects=np.zeros((n, channels)),
        attention=np.zeros((steps, channels)),
        masks=np.zeros((0, steps, channels), dtype=np.float32),
        failures={},
        channel_names=stays.channel_names,
        times=stays.times,
    )
    if edges is None:
        return measured
    facts = Facts(
        measured.ids,
        {name: np.asarray(column) for name, column in stays.attributes.items()},
        shift_codes_of(stays.x, stays.observed, shift_numbers(stays.admitted, stays.times), edges),
    )
    return replace(measured.coded(edges), attributes=facts.attributes, shift_codes=facts.shift_codes)


def _items(pool: StayDataset, stays: int) -> ItemRows:
    """Read once; afterwards from the cache."""
    from dynamask_mlflow.data import open_source

    path = cache_folder() / "drift" / f"items-{stays}-{pool.digest[:12]}.npz"
    if not path.is_file():
        found = read_items(
            open_source("synthetic", str(hospital_tables(stays, 0))), "fit32", ITEM_CHANNEL, [str(s) for s in pool.ids]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, ids=found.ids, codes=found.codes, means=found.means)
    with np.load(path) as stored:
        return ItemRows(stored["ids"], stored["codes"], stored["means"])
