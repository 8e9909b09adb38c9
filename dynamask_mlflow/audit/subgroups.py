"""Subgroups of a window: what moved in each since the reference, how they differ, and which are too small to tell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dynamask_mlflow._json import plain
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.messages import chance, joined, percent, points
from dynamask_mlflow.audit.prediction_messages import noun, number
from dynamask_mlflow.audit.statistics import (
    Effect,
    Group,
    GroupShift,
    Permutations,
    group_differences,
    group_drift,
    moved_share,
)
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.performance import classification_scores
from dynamask_mlflow.audit.statistics.permutation import FEW, SETTLED
from dynamask_mlflow.audit.verdict import Violation

PREDICTED, CALIBRATION, FAITHFULNESS, ATTENTION = "predicted", "calibration", "faithfulness", "attention "
_CASES = 10  # of each outcome, for an AUROC
_FEW = 10  # below this a count is not told
_SEED = 0x6A0
_SAID = 3  # numbers of a group that a sentence names


@dataclass(frozen=True)
class GroupSummary:
    """One group: how far its attention moved, its numbers, and its AUROC where outcomes are known."""

    group: Group
    stays: tuple[int, int]
    attention: Effect
    shifts: tuple[GroupShift, ...]
    auroc: float | None = None

    def shift(self, measure: str) -> GroupShift | None:
        return next((shift for shift in self.shifts if shift.measure == measure), None)


@dataclass(frozen=True)
class TooSmall:
    """A group that has too few stays in one of the windows."""

    group: Group
    stays: tuple[int, int]

    def __str__(self) -> str:
        shown = [f"fewer than {_FEW}" if count < _FEW else str(count) for count in self.stays]
        return f"{self.group}: {shown[0]} stays in the reference, {shown[1]} in this window"


@dataclass(frozen=True)
class SubgroupTest:
    """What subgroups show. differences: of each group against the other stays of this window."""

    summaries: tuple[GroupSummary, ...]
    differences: tuple[GroupShift, ...]
    too_small: tuple[TooSmall, ...]

    def to_json(self) -> str:
        return json.dumps(plain(asdict(self)), indent=1)


def compare_subgroups(reference: ExplainedWindow, current: ExplainedWindow, config: AuditConfig) -> SubgroupTest | None:
    """All groups of `config.by`; None if there are none. Both windows need the attributes."""
    if not config.by or any(name not in part.attributes for part in (reference, current) for name in config.by):
        return None
    parts = [part.take(part.usable & np.isfinite(part.numbers["risk"])) for part in (reference, current)]
    now = np.arange(sum(map(len, parts))) >= len(parts[0])
    members, small = _members(parts, now, config)
    if not members:
        return SubgroupTest((), (), tuple(small))
    patients = np.concatenate([part.patients for part in parts])
    numbers = _numbers(parts)
    draws = Permutations(now, patients, config.permutations, config.seed + _SEED)
    labels, shifts = draws.few, group_drift(numbers, draws.few, patients, members)
    if min(shift.p_value for shift in shifts) <= SETTLED:
        labels, shifts = draws.all, group_drift(numbers, draws.all, patients, members)
    by_channel = np.concatenate([part.by_channel for part in parts])
    summaries = [
        GroupSummary(
            group=group,
            stays=(int((member & ~now).sum()), int((member & now).sum())),
            attention=_attention(by_channel[member], labels[:, member], patients[member]),
            shifts=tuple(shift for shift in shifts if shift.group == group),
            auroc=_auroc(parts[1], member[now]),
        )
        for group, member in members.items()
    ]
    within = {name: values[now] for name, values in numbers.items()}
    inside = {group: member[now] for group, member in members.items()}
    count = min(FEW, config.permutations)
    differences = group_differences(within, patients[now], inside, count, config.seed + _SEED)
    return SubgroupTest(tuple(summaries), tuple(differences), tuple(small))


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
        told = "; ".join(map(str, test.too_small))
        found.append(f"Too small to tell, at least {config.group_minimum} are needed: {told}.")
    return tuple(found)


def _members(
    parts: Sequence[ExplainedWindow], now: Bools, config: AuditConfig
) -> tuple[dict[Group, Bools], list[TooSmall]]:
    members: dict[Group, Bools] = {}
    small = []
    for attribute in config.by:
        column = np.concatenate([part.attributes[attribute] for part in parts])
        for value in sorted(set(column.tolist()) - {""}):
            group, member = Group(attribute, value), column == value
            stays = (int((member & ~now).sum()), int((member & now).sum()))
            if min(stays) >= config.group_minimum:
                members[group] = member
            else:
                small.append(TooSmall(group, stays))
    return members, small


def _numbers(parts: Sequence[ExplainedWindow]) -> dict[str, Floats]:
    """Predictions, calibration where outcomes are known, what the masks are worth, and attention by channel."""
    found = {PREDICTED: [part.numbers["risk"] for part in parts]}
    if all("label" in part.numbers and np.isfinite(part.numbers["label"]).any() for part in parts):
        found[CALIBRATION] = [part.numbers["label"] - part.numbers["risk"] for part in parts]
    if all("own" in part.numbers for part in parts):
        found[FAITHFULNESS] = [part.numbers["own"] for part in parts]
    joined_numbers = {name: np.concatenate(values) for name, values in found.items()}
    shares = np.concatenate([part.by_channel for part in parts])
    names = parts[0].channel_names
    return joined_numbers | {f"{ATTENTION}{name}": shares[:, place] for place, name in enumerate(names)}


def _attention(values: Floats, labels: Labels, patients: Any) -> Effect:
    usable = (labels.sum(axis=1) > 0) & (labels.sum(axis=1) < labels.shape[1])
    return moved_share(values, labels[usable], patients)


def _auroc(current: ExplainedWindow, member: Bools) -> float | None:
    outcomes = current.numbers.get("label")
    if outcomes is None or "squared_error" in current.numbers:
        return None
    chosen = member & np.isfinite(outcomes)
    if min((outcomes[chosen] == kind).sum() for kind in (0, 1)) < _CASES:
        return None
    found = classification_scores(current.numbers["risk"][chosen], outcomes[chosen], np.ones((1, int(chosen.sum()))))
    return float(found["auroc"][0])


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


def _range(effect: Effect) -> str:
    return f"{100 * effect.low:.2g}, {100 * effect.high:.2g}"


def _cell(shift: GroupShift) -> str:
    return f"{number(shift.reference)} to {number(shift.current)} [{number(shift.low)}, {number(shift.high)}]"
