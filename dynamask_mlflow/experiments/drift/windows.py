"""The rows of the table: one change each, and how often an audit says what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np

from dynamask_mlflow._states import State
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.data.hospital.motifs import LOOK_ALIKES, MOTIFS
from dynamask_mlflow.experiments.drift.changes import Change, delayed, missing, other_unit, shifted
from dynamask_mlflow.experiments.drift.data import Case
from dynamask_mlflow.experiments.drift.draws import draw, judge, take

Report = Callable[[str], None]
_RATES = ("drift", "warning", "ok", "attention", "predictions", "inputs", "risk", "above")
_TOLD = "warning or DRIFT at least .9"
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
    """One line of the table: rates over the replicates.

    Attributes:
        drift, warning, ok: verdicts. attention, predictions, inputs: what each arm found, whatever the verdict.
        risk, above: mean predicted risk and share above the threshold, of all stays after the change.
    """

    source: str
    change: str
    instances: int
    drift: float
    warning: float
    ok: float
    attention: float
    predictions: float
    inputs: float
    risk: float
    above: float
    replicates: int
    wanted: str


@dataclass(frozen=True)
class Sizes:
    """Stays of the reference and of a window: those that are explained, and those that are predicted."""

    reference: int
    window: int
    predicted_reference: int = 0
    predicted: int = 0


@dataclass(frozen=True)
class Job:
    """One row to be made. wanted: "-" if it depends on how far the predictions move."""

    what: str
    sizes: Sizes
    explained: Callable[[], ExplainedWindow]
    windows: int
    wanted: str = ""


def window_rows(case: Case, pool: ExplainedWindow, count: int, report: Report, refitted: bool = True) -> list[Row]:
    """`refitted`: also changes of the inputs, after which all stays are explained anew."""
    rows = []
    for job in _jobs(case, pool, count, refitted):
        sizes, times = job.sizes, job.windows
        name = f"window {job.what} {asdict(sizes)} {times}"
        rates = case.cached(name, partial(_simulate, case, pool, job.explained, sizes, times))
        values = dict(zip(_RATES, rates, strict=True))
        wanted = _wanted(case, pool, values["risk"], values["above"]) if job.wanted == "-" else job.wanted
        stays = max(sizes.window, sizes.predicted)
        row = Row(source=case.name, change=job.what, instances=stays, replicates=times, wanted=wanted, **values)
        rows.append(row)
        report(f"{case.name}: {row.change}, n = {stays}: drift {row.drift:.3f}, warning {row.warning:.3f}")
    return rows


def _jobs(case: Case, pool: ExplainedWindow, count: int, refitted: bool) -> list[Job]:
    n, reference = case.size, case.reference_size
    usual = Sizes(reference, n, case.predicted_reference, n)
    half = replace(usual, window=n // 2, predicted=n // 2)
    jobs = [
        Job("nothing", usual, lambda: pool, 4 * count, "OK at least .95"),
        Job("nothing", half, lambda: pool, count),
        Job("the fifth at highest risk three times as frequent", usual, lambda: more_at_risk(pool), count, "-"),
        Job("20 % of the masks 6 h earlier", half, lambda: earlier(pool), count, "DRIFT at least .85"),
    ]
    if not refitted:
        return jobs
    jobs += [Job(what, usual, partial(changed, case, what), count) for what in CHANGES[case.name]]
    jobs += [
        Job(what, usual, partial(_explained, case, what, change), count, "-")
        for what, change in faults(case, pool).items()
    ]
    for name in irrelevant(case, pool):
        what = f"irrelevant channel ({name}) + 1 SD"
        explain = partial(_explained, case, what, shifted(name, 1.0))
        jobs.append(Job(what, usual, explain, 2 * count, "DRIFT at most .02, warning at most .05"))
    return jobs


def faults(case: Case, pool: ExplainedWindow) -> dict[str, Change]:
    """What may happen to each of the five most important channels."""
    found: dict[str, Change] = {}
    for place in np.argsort(-pool.mean_shares()[0])[: 1 if case.quick else 5]:
        name = pool.channel_names[place]
        found[f"{name} x .357"] = other_unit(name, 0.357)
        found[f"{name} x 10"] = other_unit(name, 10.0)
        found[f"{name} 6 h late"] = delayed(name, 6)
        found[f"{name} missing in 20 %"] = missing(name, 0.2)
        found[f"{name} missing in 50 %"] = missing(name, 0.5)
    if "Temp" in pool.channel_names and not case.quick:
        found["Temp in Fahrenheit, dropped as out of range"] = missing("Temp", 1.0)
    return found


def more_at_risk(pool: ExplainedWindow, times: float = 3.0) -> ExplainedWindow:
    """Another case mix: the fifth of the stays at highest risk is so many times as frequent as it was."""
    risk = pool.numbers["risk"]
    high = risk >= np.quantile(risk, 0.8)
    kept = high | (np.random.default_rng(7).random(len(pool)) < 1 / times)
    return take(pool, np.flatnonzero(kept), np.random.default_rng(0))


def _wanted(case: Case, pool: ExplainedWindow, risk_now: float, above_now: float) -> str:
    """A warning or drift is wanted where the mean risk moved by .02, or the share above the threshold by a quarter."""
    risk, above = _answers(case, pool)
    matters = abs(risk_now - risk) >= 0.02 or abs(above_now - above) >= 0.25 * above
    return _TOLD if matters else ""


def _answers(case: Case, stays: ExplainedWindow) -> tuple[float, float]:
    risk = stays.numbers["risk"]
    return float(np.nanmean(risk)), float(np.nanmean(risk >= case.config.thresholds[0]))


def changed(case: Case, what: str) -> ExplainedWindow:
    """The pool after one of the changes, explained anew."""
    return _explained(case, what, CHANGES[case.name][what])


def irrelevant(case: Case, pool: ExplainedWindow) -> list[str]:
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


def earlier(pool: ExplainedWindow) -> ExplainedWindow:
    """One in five stays has its mask six hours earlier: moved, not fitted again."""
    early = np.random.default_rng(5).random(len(pool)) < 0.2
    return replace(pool, by_time=np.where(early[:, None], np.roll(pool.by_time, -6, axis=1), pool.by_time))


def _explained(case: Case, what: str, change: Change) -> ExplainedWindow:
    return case.measured(what, change(case.pool, np.random.default_rng(7)))


def _simulate(
    case: Case, pool: ExplainedWindow, explained: Callable[[], ExplainedWindow], sizes: Sizes, times: int
) -> list[float]:
    """The rates of a row over fresh references and windows of these sizes; then risk and share above."""
    population, found = explained(), []
    for time in range(times):
        rng = np.random.default_rng([11, time])
        before = draw(pool, sizes.reference, rng, sizes.predicted_reference)
        now = draw(population, sizes.window, rng, sizes.predicted)
        verdict = judge(case, before, now, time, inputs=True)
        kinds = {violation.kind for violation in verdict.violations}
        arms = ("attention" in kinds, bool(kinds & {"predictions", "performance"}), "inputs" in kinds)
        found.append((*(verdict.state == state for state in (State.DRIFT, State.WARNING, State.OK)), *arms))
    rates = np.mean(np.array(found, dtype=np.float64), axis=0)
    return [*(float(rate) for rate in rates), *_answers(case, population)]
