"""Twelve audits against one reference: false alarms in a quiet year, and weak changes that only a series can prove."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.experiments.drift.data import Case, open_case
from dynamask_mlflow.experiments.drift.draws import STAGES, alarms, draw
from dynamask_mlflow.experiments.drift.windows import CHANGES, changed, more_at_risk

MONTHS = 12
BY = ("sex", "age_group", "unit")
_AT_A_TIME = 10  # years that are cached together: an interrupted experiment goes on where it was
_WEAK = 1.5  # times as frequent
Series = list[list[list[str]]]  # year -> audit -> kinds of violations


@dataclass(frozen=True)
class YearRow:
    """How many of so many quiet years had an alarm of one arm, or of any.

    Attributes:
        upper: 95 % upper bound of the chance that a year has one (Clopper-Pearson).
    """

    source: str
    arm: str
    alarmed: int
    years: int
    upper: float


ARMS = {
    "any": {"attention", "trend", "legibility", "faithfulness", "predictions", "performance", "inputs"},
    "attention": {"attention", "trend"},
    "quality of the masks": {"legibility", "faithfulness"},
    "predictions": {"predictions"},
    "outcomes": {"performance"},
    "inputs": {"inputs"},
    "subgroups": {"subgroup"},
}


def run_years(
    sources: Sequence[str],
    stays: int = 400,
    years: int = 200,
    checked: int = 2,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[list[YearRow], list[str]]:
    """Quiet years of monthly audits, by arm: references and windows are drawn from the same explained stays.

    Args:
        checked: years that are judged in full, too, without screening, and as many with a weak change; the second
            result says in a sentence for each data set how many alarms the screening missed.
    """
    rows: list[YearRow] = []
    notes: list[str] = []
    for source in sources:
        case = open_case(source, False, False, stays)
        pool = _with_groups(case, case.measured("pool", case.pool))
        by = tuple(name for name in BY if name in pool.attributes)
        series: Series = []
        for first in range(0, years, _AT_A_TIME):
            block = range(first, min(first + _AT_A_TIME, years))
            name = f"quiet years {block.start} to {block.stop}"
            series += case.cached(name, partial(_series, case, (pool, pool), block, MONTHS, by))
            report(f"{source}: {len(series)} years, {sum(any(map(set, year)) for year in series)} with an alarm")
        rows += summarize(source, series, {arm: ARMS[arm] for arm in ARMS if by or arm != "subgroups"})
        if checked:
            audits, alarmed, missed = case.cached(f"screening {checked}", partial(_missed, case, pool, checked, by))
            notes.append(
                f"{source}: {audits} audits were judged without screening, too, half of them with a weak change of the "
                f"case mix; {alarmed} of them alarmed, of which the screening missed {missed}."
            )
    return rows, notes


def _missed(case: Case, pool: ExplainedWindow, years: int, by: Sequence[str]) -> tuple[int, int, int]:
    """Audits that are judged with and without screening; how many alarm without it; how many of these do not with it.

    With nothing changed hardly any audit alarms. A case mix with the fifth at highest risk `_WEAK` times as frequent
    brings many near the levels, where screening might go wrong.
    """
    audits, alarmed, missed = 0, 0, 0
    for population in (pool, more_at_risk(pool, _WEAK)):
        with_it, without = (
            _series(case, (pool, population), range(years), MONTHS, by, stages) for stages in (STAGES, ())
        )
        for screened, full in zip(chain(*with_it), chain(*without), strict=True):
            audits, alarmed, missed = audits + 1, alarmed + bool(full), missed + (screened != full)
    return audits, alarmed, missed


def summarize(source: str, series: Series, arms: Mapping[str, set[str]]) -> list[YearRow]:
    """One row for each arm: in how many years one of its kinds alarmed.

    >>> summarize("hospital", [[["inputs"], ["inputs"]], [[], []]], {"inputs": {"inputs"}})[0].alarmed
    1
    """
    from scipy.stats import beta

    rows = []
    for arm, kinds in arms.items():
        alarmed = sum(any(kinds & set(audit) for audit in year) for year in series)
        upper = 1.0 if alarmed == len(series) else float(beta.ppf(0.95, alarmed + 1, len(series) - alarmed))
        rows.append(YearRow(source, arm, alarmed, len(series), upper))
    return rows


def as_table(rows: Sequence[YearRow]) -> list[list[str]]:
    """The rows, with a head."""
    head = ["data", "alarm", "years with one", "years", "share", "95 % upper bound"]
    body = [
        [row.source, row.arm, str(row.alarmed), str(row.years), f"{row.alarmed / row.years:.3f}", f"{row.upper:.3f}"]
        for row in rows
    ]
    return [head, *body]


def _with_groups(case: Case, pool: ExplainedWindow) -> ExplainedWindow:
    """The stays with the attributes that the data have: slices and groups are made of them."""
    place = {str(stay): row for row, stay in enumerate(case.pool.ids)}
    order = np.array([place[str(stay)] for stay in pool.ids])
    columns = {name: np.asarray(column).astype(np.str_)[order] for name, column in case.pool.attributes.items()}
    return replace(pool, attributes=columns)


def year_notes(case: Case, pool: ExplainedWindow, years: int, refitted: bool = True) -> list[str]:
    """Sentences about quiet years, and about weak changes that last for half a year."""
    everyone = range(years)
    quiet = case.cached(f"years {years}", partial(_series, case, (pool, pool), everyone, MONTHS))
    notes = [
        f"{case.name}: over a year of monthly audits with nothing changed, {_within(quiet, MONTHS):.3f} of {years} "
        f"years had a false alarm ({np.mean([bool(audit) for year in quiet for audit in year]):.4f} of the audits); "
        "wanted at most .05."
    ]
    if not refitted:
        return notes
    weak = next(what for what in CHANGES[case.name] if "20 %" in what and "missing" in what)
    some = range(max(6, years // 5))
    found = case.cached(f"series {weak} {len(some)}", partial(_changed_series, case, pool, weak, some))
    return [
        *notes,
        f"{case.name}: {weak} for half a year: found by the first audit in {_within(found, 1):.2f}, within three in "
        f"{_within(found, 3):.2f}, within six in {_within(found, 6):.2f} of {len(some)} series.",
    ]


def _changed_series(case: Case, pool: ExplainedWindow, what: str, years: Sequence[int]) -> Series:
    return _series(case, (pool, changed(case, what)), years, MONTHS // 2)


def _series(
    case: Case,
    populations: tuple[ExplainedWindow, ExplainedWindow],
    years: Sequence[int],
    months: int,
    by: Sequence[str] = (),
    stages: Sequence[int] = STAGES,
) -> Series:
    """Audits of windows of the second population against references of the first."""
    found = []
    for year in years:
        rng = np.random.default_rng([13, year])
        before = draw(populations[0], case.reference_size, rng, case.predicted_reference)
        windows = [draw(populations[1], case.size, rng, case.predicted_size) for _ in range(months)]
        found.append(alarms(case.config.with_options(seed=100 * year), before, windows, by, stages))
    return found


def _within(series: Series, audits: int) -> float:
    return float(np.mean([any(map(bool, year[:audits])) for year in series]))
