"""Twelve audits against one reference: false alarms in a quiet year, and weak changes that only a series can prove."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.experiments.drift.data import Case
from dynamask_mlflow.experiments.drift.draws import alarms, draw
from dynamask_mlflow.experiments.drift.windows import CHANGES, changed


def year_notes(case: Case, pool: ExplainedWindow, years: int, refitted: bool = True) -> list[str]:
    quiet = case.cached(f"years {years}", lambda: _series(case, pool, pool, years, 12, 13))
    rate = _within(quiet, 12)
    found_quiet = (
        f"{case.name}: over a year of monthly audits with nothing changed, {rate:.3f} of {years} years had a false "
        f"alarm ({np.mean(quiet):.4f} of the audits); wanted at most .05."
    )
    if not refitted:
        return [found_quiet]
    weak = next(what for what in CHANGES[case.name] if "20 %" in what and "missing" in what)
    some = max(6, years // 5)
    found = case.cached(f"series {weak} {some}", lambda: _series(case, pool, changed(case, weak), some, 6, 17))
    return [
        found_quiet,
        f"{case.name}: {weak} for half a year: found by the first audit in {_within(found, 1):.2f}, within three in "
        f"{_within(found, 3):.2f}, within six in {_within(found, 6):.2f} of {some} series.",
    ]


def _series(
    case: Case, pool: ExplainedWindow, population: ExplainedWindow, years: int, months: int, seed: int
) -> list[list[bool]]:
    found = []
    for year in range(years):
        rng = np.random.default_rng([seed, year])
        before = draw(pool, case.reference_size, rng)
        windows = [draw(population, case.size, rng) for _ in range(months)]
        found.append(alarms(case, before, windows, 100 * year))
    return found


def _within(series: list[list[bool]], audits: int) -> float:
    return float(np.mean([any(each[:audits]) for each in series]))
