"""What subgroups show: warnings, sentences, and the rows of a page."""

from __future__ import annotations

from typing import Any

from dynamask_mlflow.audit.comparison import ATTENTION, CALIBRATION, FAITHFULNESS, PREDICTED, SubgroupTest
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.statistics import Effect, GroupShift
from dynamask_mlflow.audit.verdict.messages import chance, joined, noun, number, percent, points
from dynamask_mlflow.audit.verdict.verdict import Violation

_SAID = 3  # numbers of a group that a sentence names


def subgroup_violations(test: SubgroupTest | None, task: str, config: AuditConfig) -> list[Violation]:
    """One warning for each group that moved beyond chance and by so much that it matters."""
    if test is None:
        return []
    found = []
    for summary in test.summaries:
        moved = [shift for shift in summary.shifts if shift.p_value <= config.levels["groups"]]
        moved = [shift for shift in moved if _matters(shift, task, config)]
        if not moved:
            continue
        first = min(moved, key=lambda shift: shift.p_value)
        text = "; ".join(_shift_text(shift, task, "from {1} to {0}") for shift in moved[:_SAID])
        more = f"; and {len(moved) - _SAID} more" if len(moved) > _SAID else ""
        found.append(
            Violation(
                kind="subgroup",
                subject=str(summary.group),
                message=f"The group {summary.group} moved ({summary.stays[1]} stays): {text}{more}.",
                value=first.difference,
                p_value=first.p_value,
                low=first.low,
                high=first.high,
            )
        )
    return found


def subgroup_sentences(test: SubgroupTest | None, task: str, config: AuditConfig) -> tuple[str, ...]:
    """Differences between groups within the window, and groups that are too small."""
    if test is None:
        return ()
    found = []
    for group in dict.fromkeys(shift.group for shift in test.differences):
        apart = [s for s in test.differences if s.group == group and s.p_value <= config.alpha]
        apart = [shift for shift in apart if _matters(shift, task, config)]
        if apart:
            text = "; ".join(_shift_text(shift, task, "{0} against {1} of the others") for shift in apart[:_SAID])
            found.append(f"The group {group} differs from the other stays of this window: {text}.")
    if test.differences and not found:
        groups = joined([str(group) for group in dict.fromkeys(s.group for s in test.differences)], 12)
        found.append(f"No difference between the groups of this window is proven ({groups}).")
    if test.too_small:
        too_small = "; ".join(map(str, test.too_small))
        found.append(f"Too small to tell, at least {config.group_minimum} are needed: {too_small}.")
    return tuple(found)


def group_rows(test: SubgroupTest) -> list[dict[str, Any]]:
    """The table of a page: one row a group."""
    rows = []
    for summary in test.summaries:
        row = {"group": str(summary.group), "stays": summary.stays[1], "stays in the reference": summary.stays[0]}
        row["attention moved"] = f"{percent(summary.attention.moved)} [{_range(summary.attention)}]"
        for measure in (PREDICTED, CALIBRATION, FAITHFULNESS):
            shift = summary.shift(measure)
            row[measure] = "-" if shift is None else _cell(shift)
        row["AUROC"] = "-" if summary.auroc is None else number(summary.auroc)
        rows.append(row)
    return rows


def _matters(shift: GroupShift, task: str, config: AuditConfig) -> bool:
    """The same sizes as of the whole window."""
    if shift.measure == PREDICTED and task == "classification":
        return abs(shift.difference) >= config.risk_effect
    if shift.measure == CALIBRATION and task == "classification":
        return abs(shift.difference) >= config.performance_effect
    if shift.measure in (PREDICTED, CALIBRATION):
        return abs(shift.effect) >= config.value_effect
    if shift.measure == FAITHFULNESS:
        return abs(shift.effect) >= config.quality_effect
    return abs(shift.difference) >= config.effect


def _shift_text(shift: GroupShift, task: str, form: str) -> str:
    """`form`: how the group's value, {0}, and the other one, {1}, stand in the sentence."""
    interval = f"[{number(shift.low)}, {number(shift.high)}]"
    names = {
        PREDICTED: f"the mean {noun(task)}",
        CALIBRATION: "observed minus predicted",
        FAITHFULNESS: "what the masks' cells are worth to the prediction",
    }
    if shift.measure in names:
        values = form.format(number(shift.current), number(shift.reference))
        return f"{names[shift.measure]} {values} (difference {interval}, {chance(shift.p_value)})"
    low, high = 100 * shift.low, 100 * shift.high
    size = f"{points(shift.difference)} [{low:.2g}, {high:.2g}]"
    return f"attention to {shift.measure.removeprefix(ATTENTION)} {size} ({chance(shift.p_value)})"


def _range(effect: Effect) -> str:
    return f"{100 * effect.low:.2g}, {100 * effect.high:.2g}"


def _cell(shift: GroupShift) -> str:
    return f"{number(shift.reference)} to {number(shift.current)} [{number(shift.low)}, {number(shift.high)}]"
