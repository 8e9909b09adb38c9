"""Subgroups of a window: what moved in each since the reference, how they differ, and which are too small to tell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dynamask_mlflow._json import plain
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.explained_window import ExplainedWindow, joined_attributes, members
from dynamask_mlflow.audit.statistics import (
    FEW,
    Bools,
    Effect,
    Floats,
    Group,
    GroupShift,
    Labels,
    Permutations,
    classification_scores,
    group_differences,
    group_drift,
    moved_share,
)

PREDICTED, CALIBRATION, FAITHFULNESS, ATTENTION = "predicted", "calibration", "faithfulness", "attention "
_CASES = 10  # of each outcome, for an AUROC
_FEW = 10  # below this a count is not shown
_SEED = 0x6A0


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


def compare_subgroups(
    reference: ExplainedWindow, current: ExplainedWindow, config: AuditConfig, *, within: bool = True
) -> SubgroupTest | None:
    """All groups of `config.by`; None if there are none. Both windows need the attributes.

    Args:
        within: False leaves out the differences between the groups of the current window, on which no verdict depends.
    """
    if not config.by or any(name not in part.attributes for part in (reference, current) for name in config.by):
        return None
    parts = [part.take(part.usable & np.isfinite(part.numbers["risk"])) for part in (reference, current)]
    now = np.arange(sum(map(len, parts))) >= len(parts[0])
    groups, small = _groups(parts, now, config)
    if not groups:
        return SubgroupTest((), (), tuple(small))
    patients = np.concatenate([part.patients for part in parts])
    numbers = _numbers(parts)
    draws = Permutations(now, patients, config.permutations, config.seed + _SEED)
    labels, shifts = draws.staged(
        lambda labels: (labels, group_drift(numbers, labels, patients, groups)),
        lambda found: min(shift.p_value for shift in found[1]),
    )
    by_channel = np.concatenate([part.by_channel for part in parts])
    summaries = [
        GroupSummary(
            group=group,
            stays=(int((member & ~now).sum()), int((member & now).sum())),
            attention=_attention(by_channel[member], labels[:, member], patients[member]),
            shifts=tuple(shift for shift in shifts if shift.group == group),
            auroc=_auroc(parts[1], member[now]),
        )
        for group, member in groups.items()
    ]
    if not within:
        return SubgroupTest(tuple(summaries), (), tuple(small))
    inside_numbers = {name: values[now] for name, values in numbers.items()}
    inside = {group: member[now] for group, member in groups.items()}
    count = min(FEW, config.permutations)
    differences = group_differences(inside_numbers, patients[now], inside, count, config.seed + _SEED)
    return SubgroupTest(tuple(summaries), tuple(differences), tuple(small))


def _groups(
    parts: Sequence[ExplainedWindow], now: Bools, config: AuditConfig
) -> tuple[dict[Group, Bools], list[TooSmall]]:
    found: dict[Group, Bools] = {}
    small = []
    columns = joined_attributes(parts)
    for attribute in config.by:
        for value, member in members(columns[attribute]).items():
            group, stays = Group(attribute, value), (int((member & ~now).sum()), int((member & now).sum()))
            if min(stays) >= config.group_minimum:
                found[group] = member
            else:
                small.append(TooSmall(group, stays))
    return found, small


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
    if outcomes is None or current.task == "regression":
        return None
    chosen = member & np.isfinite(outcomes)
    if min((outcomes[chosen] == kind).sum() for kind in (0, 1)) < _CASES:
        return None
    found = classification_scores(current.numbers["risk"][chosen], outcomes[chosen], np.ones((1, int(chosen.sum()))))
    return float(found["auroc"][0])
