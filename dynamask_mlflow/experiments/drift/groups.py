"""How often subgroups are right: nothing differs, and one group that differs or moved, planted in explained stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynamask_mlflow.audit.comparison import SubgroupTest, compare_subgroups
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.statistics import Bools, GroupShift
from dynamask_mlflow.experiments.drift.data import open_case
from dynamask_mlflow.experiments.drift.draws import take

Report = Callable[[str], None]
Change = Callable[[ExplainedWindow, Bools], ExplainedWindow]
_PERMUTATIONS = 5999  # as many as the level of a monthly audit needs
EACH = 150  # stays a group of sex, in each window


@dataclass(frozen=True)
class GroupRow:
    """One line: the share of windows in which any group was said to have moved, or to differ, and the planted one."""

    what: str
    moved: float
    differs: float
    planted_moved: float
    planted_differs: float
    windows: int


def risk_raised(stays: ExplainedWindow, chosen: Bools) -> ExplainedWindow:
    """The predicted risk of the group is that of stays with odds three times as high."""
    risk = np.clip(stays.numbers["risk"], 1e-6, 1 - 1e-6)
    odds = 3 * risk / (1 - risk)
    return replace(stays, numbers={**stays.numbers, "risk": np.where(chosen, odds / (1 + odds), risk)})


def worth_halved(stays: ExplainedWindow, chosen: Bools) -> ExplainedWindow:
    """In the group the masks' cells are worth half as much to the prediction."""
    own = stays.numbers["own"]
    return replace(stays, numbers={**stays.numbers, "own": np.where(chosen, 0.5 * own, own)})


def attention_moved(stays: ExplainedWindow, chosen: Bools) -> ExplainedWindow:
    """In the group half of the attention to the most important channel goes to the next."""
    order = np.argsort(-np.nanmean(stays.by_channel, axis=0))
    shares = stays.by_channel.copy()
    part = 0.5 * shares[chosen, order[0]]
    shares[chosen, order[0]] -= part
    shares[chosen, order[1]] += part
    return replace(stays, by_channel=shares)


CHANGES: dict[str, tuple[Change | None, str]] = {
    "nothing": (None, ""),
    "women: odds of the predicted risk x 3": (risk_raised, "predicted"),
    "women: masks' cells worth half": (worth_halved, "faithfulness"),
    "women: half of the first channel's attention elsewhere": (attention_moved, "attention"),
}


def run_groups(stays: int = 400, windows: int = 60, report: Report = lambda _: None) -> list[GroupRow]:
    """All rows, on explained stays of the synthetic hospital."""
    case = open_case("hospital", False, False, stays)
    columns = {name: np.asarray(column) for name, column in case.pool.attributes.items()}
    explained = case.measured("pool", case.pool)
    place = {str(stay): row for row, stay in enumerate(case.pool.ids)}
    order = np.array([place[str(stay)] for stay in explained.ids])
    pool = replace(explained, attributes={name: column[order] for name, column in columns.items()})
    config = case.config.with_options(by=("sex", "age_group", "unit"), permutations=_PERMUTATIONS)
    rows = []
    for what, (change, measure) in CHANGES.items():
        found = []
        for time in range(windows):
            rng = np.random.default_rng([37, time])
            before, now = (_draw(pool, count, rng) for count in (500, 2 * EACH))
            if change is not None:
                now = change(now, now.attributes["sex"] == "female")
            test = compare_subgroups(before, now, config.with_options(seed=time))
            assert test is not None
            found.append(_told(test, measure, config.levels["groups"], config.alpha))
        moved, differs, planted_moved, planted_differs = np.mean(np.array(found, dtype=np.float64), axis=0).tolist()
        rows.append(GroupRow(what, moved, differs, planted_moved, planted_differs, windows))
        report(f"{rows[-1]}")
    return rows


def as_table(rows: list[GroupRow]) -> list[list[str]]:
    head = [
        "planted",
        "any group moved",
        "any group differs",
        "the planted one moved",
        "the planted one differs",
        "windows",
    ]
    body = [
        [
            row.what,
            f"{row.moved:.2f}",
            f"{row.differs:.2f}",
            f"{row.planted_moved:.2f}" if row.what != "nothing" else "-",
            f"{row.planted_differs:.2f}" if row.what != "nothing" else "-",
            str(row.windows),
        ]
        for row in rows
    ]
    return [head, *body]


def _draw(pool: ExplainedWindow, count: int, rng: np.random.Generator) -> ExplainedWindow:
    """As many women as men; sex is dealt out anew, so that nothing differs between them but what is planted."""
    drawn = take(pool, rng.choice(np.flatnonzero(pool.usable), count), rng)
    attributes = {name: rng.permutation(column) for name, column in drawn.attributes.items()}
    attributes["sex"] = rng.permutation(np.where(np.arange(count) % 2 == 0, "female", "male"))
    return replace(drawn, attributes=attributes)


def _told(test: SubgroupTest, measure: str, level: float, alpha: float) -> tuple[bool, bool, bool, bool]:
    """Any group moved, any differs; the planted one moved, and differs, in what was planted."""
    moved = [shift for summary in test.summaries for shift in summary.shifts if shift.p_value <= level]
    apart = [shift for shift in test.differences if shift.p_value <= alpha]

    def planted(shifts: list[GroupShift]) -> bool:
        return any(s.group.attribute == "sex" and s.measure.startswith(measure) for s in shifts)

    return bool(moved), bool(apart), planted(moved), planted(apart)
