"""Subgroups: did one of them move between the windows, and do they differ within one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import standard_error
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import holm, ranked, scaled, step_down
from dynamask_mlflow.audit.statistics.permutation import mean_gaps, permuted_labels
from dynamask_mlflow.audit.statistics.quality import ScaledShift, compare_means

SHARE = "attention "  # a number of this name is a share of attention to one channel
RANKED = ("predicted", "faithfulness")


@dataclass(frozen=True, order=True)
class Group:
    """One group: an attribute and one of its values."""

    attribute: str
    value: str

    def __str__(self) -> str:
        return f"{self.attribute} {self.value}"


@dataclass(frozen=True, kw_only=True)
class GroupShift(ScaledShift):
    """One number of one group, compared: its means in both windows, or within one those of the other stays and its own.

    Attributes:
        p_value: by permutation of patients, adjusted over all groups and numbers; of the ranks where the number is
            skewed (`RANKED`).
        measure: which number. stays: how many of the reference, and of the current window, are behind it.
    """

    group: Group
    measure: str
    stays: tuple[int, int]


def group_drift(
    numbers: Mapping[str, Floats], labels: Labels, patients: NDArray[Any], members: Mapping[Group, Bools]
) -> list[GroupShift]:
    """Each (n,) number of each group, in the current window against the reference.

    `labels` come from `permuted_labels`. The permutations are shared by all groups, so that step-down knows how they
    overlap. A number may be NaN where it is not known. Families: see `_tested`.
    """
    values, names = np.stack(list(numbers.values()), axis=1), list(numbers)
    if not members:
        return []
    tested, families = _tested(numbers)
    gaps = [scaled(mean_gaps(tested[member], labels[:, member])) for member in members.values()]
    p = _adjusted(np.stack(gaps, axis=1), families)
    current = labels[0] > 0
    found = []
    for own, (group, member) in zip(p, members.items(), strict=True):
        found += _shifts(group, names, values[member], current[member], patients[member], own)
    return found


def group_differences(
    numbers: Mapping[str, Floats], patients: NDArray[Any], members: Mapping[Group, Bools], count: int, seed: int
) -> list[GroupShift]:
    """Each (n,) number of each group against the other stays of the same window.

    Step-down over the numbers of a group by permutation of patients, then Holm over the groups. Of an attribute with
    two groups only the first is compared: the second is its mirror.
    """
    values, names = np.stack(list(numbers.values()), axis=1), list(numbers)
    chosen = _without_mirrors(members)
    if not chosen:
        return []
    tested, families = _tested(numbers)
    tests = np.empty((len(chosen), len(names)))
    for place, group in enumerate(chosen):
        labels = permuted_labels(members[group], patients, count, seed)
        tests[place] = _adjusted(scaled(mean_gaps(tested, labels))[:, None], families)[0]
    # Holm over the groups, family by family: the p-values of a group share one factor.
    for family in families:
        least = tests[:, family].min(axis=1)
        factors = np.maximum(holm(least) / np.maximum(least, 1e-300), 1.0)
        tests[:, family] = np.minimum(tests[:, family] * factors[:, None], 1.0)
    found = []
    for group, own in zip(chosen, tests, strict=True):
        found += _shifts(group, names, values, members[group], patients, own)
    return found


def _tested(numbers: Mapping[str, Floats]) -> tuple[Floats, list[list[int]]]:
    """What is tested of each number, and two families of them, each of which gets half of the chance.

    Shares of attention, one a channel, are a family of their own: many of them would otherwise take the power from the
    few numbers that matter most. Predictions and what masks are worth are skewed, and tested by their ranks.
    """
    columns = [ranked(values) if name in RANKED else values for name, values in numbers.items()]
    shares = [place for place, name in enumerate(numbers) if name.startswith(SHARE)]
    others = [place for place, name in enumerate(numbers) if not name.startswith(SHARE)]
    return np.stack(columns, axis=1), [family for family in (others, shares) if family]


def _adjusted(statistics: Floats, families: Sequence[Sequence[int]]) -> Floats:
    """(groups, k) p-values from (B, groups, k) statistics: step-down within each family, Bonferroni between them."""
    count, groups, _ = statistics.shape
    adjusted: Floats = np.ones(statistics.shape[1:])
    for family in families:
        p = step_down(statistics[:, :, family].reshape(count, -1)).reshape(groups, len(family))
        adjusted[:, family] = np.minimum(len(families) * p, 1.0)
    return adjusted


def _shifts(
    group: Group, names: Sequence[str], values: Floats, current: Bools, patients: NDArray[Any], p: Floats
) -> list[GroupShift]:
    found = []
    whole: Bools = np.asarray(np.isfinite(values).all(axis=0))
    errors = np.full(len(names), np.nan)
    if whole.any() and current.any() and not current.all():
        errors[whole] = standard_error(values[:, whole], current, patients)  # all numbers at once
    for column, name in enumerate(names):
        now = current[np.isfinite(values[:, column])]
        stays = (int((~now).sum()), int(now.sum()))
        if min(stays) >= 2:
            error = float(errors[column]) if whole[column] else None
            shift = compare_means(values[:, column], current, patients, float(p[column]), error)
            found.append(GroupShift(**asdict(shift), group=group, measure=name, stays=stays))
    return found


def _without_mirrors(members: Mapping[Group, Bools]) -> list[Group]:
    kept: list[Group] = []
    for group, member in members.items():
        mirrored = any(o.attribute == group.attribute and np.array_equal(members[o], ~member) for o in kept)
        if not mirrored and member.any() and not member.all():
            kept.append(group)
    return kept
