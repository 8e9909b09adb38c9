"""Subgroups: did one of them move between the windows, and do they differ within one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import standard_error
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import holm, step_down
from dynamask_mlflow.audit.statistics.permutation import in_chunks, permuted_labels

_Z975 = 1.959963984540054


@dataclass(frozen=True, order=True)
class Group:
    """One group: an attribute and one of its values."""

    attribute: str
    value: str

    def __str__(self) -> str:
        return f"{self.attribute} {self.value}"


@dataclass(frozen=True)
class GroupShift:
    """One number of one group, compared.

    Attributes:
        measure: which number. reference, current: its means; within one window those of the other stays and
            of the group.
        low, high: 95 % confidence interval of the difference, with patients as units.
        effect: the difference in standard deviations of the reference.
        p_value: by permutation of patients, adjusted over all groups and numbers.
        stays: how many of the reference, and of the current window, are behind it.
    """

    group: Group
    measure: str
    reference: float
    current: float
    low: float
    high: float
    effect: float
    p_value: float
    stays: tuple[int, int]

    @property
    def difference(self) -> float:
        return self.current - self.reference


def group_drift(
    numbers: Mapping[str, Floats], labels: Labels, patients: NDArray[Any], members: Mapping[Group, Bools]
) -> list[GroupShift]:
    """Each (n,) number of each group, in the current window against the reference.

    `labels` come from `permuted_labels`. The permutations are shared by all groups, so that step-down knows how they
    overlap. A number may be NaN where it is not known.
    """
    values, names = np.stack(list(numbers.values()), axis=1), list(numbers)
    parts = [(group, member, mean_gaps(values[member], labels[:, member])) for group, member in members.items()]
    if not parts:
        return []
    p = step_down(_scaled(np.concatenate([gaps for *_, gaps in parts], axis=1)))
    current = labels[0] > 0
    found = []
    for place, (group, member, _) in enumerate(parts):
        own = p[place * len(names) : (place + 1) * len(names)]
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
    tests = []
    for group in chosen:
        member = members[group]
        labels = permuted_labels(member, patients, count, seed)
        tests.append(step_down(_scaled(mean_gaps(values, labels))))
    if not tests:
        return []
    # Holm, number by number: the p-values of a group share one factor.
    least = np.array([test.min() for test in tests])
    factors = holm(least) / np.maximum(least, 1e-300)
    found = []
    for group, test, factor in zip(chosen, tests, factors, strict=True):
        own = np.minimum(test * max(float(factor), 1.0), 1.0)
        found += _shifts(group, names, values, members[group], patients, own)
    return found


def mean_gaps(values: Floats, labels: Labels) -> Floats:
    """(B, k): as `mean_differences`, of values (n, k) that may be NaN; 0 where a window has none."""
    known = np.isfinite(values)
    filled, seen = np.where(known, values, 0.0), known.astype(np.float64)
    total, count = filled.sum(axis=0), seen.sum(axis=0)
    result: Floats = np.zeros((len(labels), values.shape[1]))
    for rows in in_chunks(labels):
        weights = labels[rows].astype(np.float64)
        ahead, many = weights @ filled, weights @ seen
        rest = count - many
        gap = ahead / np.maximum(many, 1) - (total - ahead) / np.maximum(rest, 1)
        result[rows] = np.where((many > 0) & (rest > 0), gap, 0.0)
    return result


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


def _scaled(gaps: Floats) -> Floats:
    spread = gaps[1:].std(axis=0)
    return np.abs(gaps) / np.where(spread > 1e-12, spread, np.inf)


def _without_mirrors(members: Mapping[Group, Bools]) -> list[Group]:
    kept: list[Group] = []
    for group, member in members.items():
        mirrored = any(o.attribute == group.attribute and np.array_equal(members[o], ~member) for o in kept)
        if not mirrored and member.any() and not member.all():
            kept.append(group)
    return kept
