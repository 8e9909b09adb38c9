"""The rows of the table: one change each, and how often an audit says what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dynamask_mlflow.audit.measured import Measured
from dynamask_mlflow.data.hospital.motifs import LOOK_ALIKES, MOTIFS
from dynamask_mlflow.experiments.drift.changes import Change, missing, other_unit, shifted
from dynamask_mlflow.experiments.drift.data import Case
from dynamask_mlflow.experiments.drift.draws import draw, judge

Report = Callable[[str], None]
CHANGES: dict[str, dict[str, Change]] = {
    "physionet": {
        "glucose in another unit": other_unit("Glucose", 1 / 18),
        "Fahrenheit in 20 % of the stays": other_unit("Temp", 1.8, 32.0, 0.2),
        "GCS missing in 50 %": missing("GCS", 0.5),
        "GCS missing in 20 %": missing("GCS", 0.2),
    },
    "hospital": {
        "lactate in another unit": other_unit("LACTATE", 9.0),
        "Fahrenheit in 20 % of the stays": other_unit("Temp", 1.8, 32.0, 0.2),
        "SpO2 missing in 50 %": missing("SpO2", 0.5),
        "SpO2 missing in 20 %": missing("SpO2", 0.2),
    },
}


@dataclass(frozen=True)
class Row:
    """One line of the table: rates over the replicates, NaN where not asked."""

    source: str
    change: str
    instances: int
    drift: float
    ok: float
    ndcg: float
    inputs: float
    replicates: int
    wanted: str


def window_rows(case: Case, pool: Measured, count: int, report: Report) -> list[Row]:
    n = case.size
    jobs: list[tuple[str, int, Callable[[], Measured], int, str]] = [
        ("nothing", n, lambda: pool, 4 * count, "DRIFT at most .01, OK at least .95"),
        ("nothing", n // 2, lambda: pool, count, ""),
        ("20 % of the masks 6 h earlier", n // 2, lambda: earlier(pool), count, "DRIFT at least .85"),
    ]
    for what in CHANGES[case.name]:
        jobs.append((what, n, partial(changed, case, what), count, ""))
    for name in irrelevant(case, pool):
        what = f"irrelevant channel ({name}) + 1 SD"
        explain = partial(_explained, case, what, shifted(name, 1.0))
        jobs.append((what, n, explain, count, "DRIFT at most .02"))
    rows = []
    for what, size, explained, times, wanted in jobs:
        rates = case.cached(f"window {what} {size} {times}", partial(_simulate, case, pool, explained, size, times))
        drift, ok, rank, inputs = rates
        rows.append(Row(case.name, what, size, drift, ok, rank, inputs, times, wanted))
        report(f"{case.name}: {what}, n = {size}: drift {drift:.3f}, ok {ok:.3f}, inputs {inputs:.2f}")
    return rows


def changed(case: Case, what: str) -> Measured:
    """The pool after one of the changes, explained anew."""
    return _explained(case, what, CHANGES[case.name][what])


def irrelevant(case: Case, pool: Measured) -> list[str]:
    """Channels that do not matter.

    In the synthetic hospital those of the look-alikes, which by design never touch the outcome; SysBP, which has little
    attention, does not belong to them: it falls in shock. In real data nobody knows; there it is the channel with the
    least attention of those that are often charted and vary.
    """
    if case.name == "hospital":
        known = {signal for motif in LOOK_ALIKES for signal in MOTIFS[motif]}
        return [name for name in pool.channel_names if name in known][: 1 if case.quick else None]
    varies = case.pool.x.std(axis=1).mean(axis=0) > 0.1
    candidates = (case.pool.observed.mean(axis=(0, 1)) > 0.3) & varies
    return [pool.channel_names[int(np.argmin(np.where(candidates, pool.mean_shares()[0], np.inf)))]]


def earlier(pool: Measured) -> Measured:
    """One in five stays has its mask six hours earlier: moved, not fitted again."""
    early = np.random.default_rng(5).random(len(pool)) < 0.2
    return replace(pool, by_time=np.where(early[:, None], np.roll(pool.by_time, -6, axis=1), pool.by_time))


def _explained(case: Case, what: str, change: Change) -> Measured:
    return case.measured(what, change(case.pool, np.random.default_rng(7)))


def _simulate(case: Case, pool: Measured, explained: Callable[[], Measured], size: int, times: int) -> list[float]:
    """Shares of (drift, ok, nDCG < .9, input test) over windows of `size` stays against fresh references."""
    population, found = explained(), []
    for time in range(times):
        rng = np.random.default_rng([11, time])
        before, now = draw(pool, case.reference_size, rng), draw(population, size, rng)
        asked = time < max(10, times // 8)  # the input arm has no say in the verdict, and is the slowest
        verdict = judge(case, before, now, time, inputs=asked)
        inputs = float(verdict.metrics["inputs_moved"] > 0) if asked else np.nan
        found.append((verdict.state == "drift", verdict.state == "ok", verdict.metrics["ndcg"] < 0.9, inputs))
    return [float(value) for value in np.nanmean(np.array(found, dtype=np.float64), axis=0)]
