"""Subgroups: did one of them move between the windows, and do they differ within one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import standard_error
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import holm, ranked, scaled, step_down
from dynamask_mlflow.audit.statistics.permutation import mean_gaps, permuted_labels
from dynamask_mlflow.audit.statistics.quality import QualityShift

_Z975 = 1.959963984540054
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
class GroupShift(QualityShift):
    """One number of one group, compared.

    Attributes:
        measure: which number. reference, current: its means; within one window those of the other stays and
            of the group.
        low, high: 95 % confidence interval of the difference, with patients as units.
        effect: the difference in standard deviations of the reference.
        p_value: by permutation of patients, adjusted over all groups and numbers; of the ranks where the number is
            skewed (`RANKED`).
        stays: how many of the reference, and of the current window, are behind it.
    """

    group: Group
    measure: str
    stays: tuple[int, int]

    @property
    def difference(self) -> float:
        return self.current - self.reference


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
    for column, name in enumerate(names):
        known = np.isfinite(values[:, column])
        now = current[known]
        if now.sum() < 2 or (~now).sum() < 2:
            continue
        part = values[known, column][:, None]
        before, after = float(part[~now].mean()), float(part[now].mean())
        margin = _Z975 * float(standard_error(part, now, patients[known])[0])
        spread = float(part[~now].std())
        found.append(
            GroupShift(
                group=group,
                measure=name,
                reference=before,
                current=after,
                low=after - before - margin,
                high=after - before + margin,
                effect=(after - before) / spread if spread > 0 else 0.0,
                p_value=float(p[column]),
                stays=(int((~now).sum()), int(now.sum())),
            )
        )
    return found


def _without_mirrors(members: Mapping[Group, Bools]) -> list[Group]:
    kept: list[Group] = []
    for group, member in members.items():
        mirrored = any(o.attribute == group.attribute and np.array_equal(members[o], ~member) for o in kept)
        if not mirrored and member.any() and not member.all():
            kept.append(group)
    return kept
