"""Inputs within slices of the stays: a fault of one small ward moves all its stays, and the whole hardly at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynamask_mlflow.audit.statistics.inputs import LEVELS, UNKNOWN, Codes
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import scaled, step_down
from dynamask_mlflow.audit.statistics.permutation import Permutations, at_most, mean_gaps

LEAST = 15  # stays of each window in a slice


@dataclass(frozen=True)
class SliceInput:
    """One channel in one slice.

    Attributes:
        channel: its position. kind: "values" or "gaps". slice: the slice's name, and share of the window's stays.
        shift: change of the mean percentile within the reference window, in [-1, 1].
        gap: Kolmogorov-Smirnov distance within the slice. p_value: adjusted over all slices and channels (step-down).
    """

    channel: int
    kind: str
    slice: str
    share: float
    shift: float
    gap: float
    p_value: float


def slice_input_test(codes: Codes, labels: Labels, slices: Mapping[str, Bools]) -> list[SliceInput]:
    """Mean percentiles of (n, 2 d) codes in every slice with enough stays, the surest first.

    Args:
        codes: as of `input_test`. labels: from `permuted_labels`. slices: name -> (n,) which stays belong to it.
    """
    chosen = at_most(labels)
    codes, labels = codes[chosen], labels[:, chosen]
    current = labels[0] > 0
    large = {
        name: member[chosen]
        for name, member in slices.items()
        if min(int((member[chosen] & now).sum()) for now in (current, ~current)) >= LEAST
    }
    if not large:
        return []
    places = np.where(codes == UNKNOWN, np.nan, codes / (LEVELS - 1))
    gaps = [mean_gaps(places[member], labels[:, member]) for member in large.values()]
    p = step_down(scaled(np.concatenate(gaps, axis=1))).reshape(len(large), -1)
    channels = codes.shape[1] // 2
    found = []
    for row, (name, member) in enumerate(large.items()):
        distances = _distances(codes[member], current[member])
        for column in range(codes.shape[1]):
            found.append(
                SliceInput(
                    channel=column % channels,
                    kind="values" if column < channels else "gaps",
                    slice=name,
                    share=float(member[current].mean()),
                    shift=float(gaps[row][0, column]),
                    gap=float(distances[column]),
                    p_value=float(p[row, column]),
                )
            )
    return sorted(found, key=lambda each: (each.p_value, -each.gap))


def staged_slice_input_test(codes: Codes, draws: Permutations, slices: Mapping[str, Bools]) -> list[SliceInput]:
    """`slice_input_test` by as many permutations as it needs."""
    return draws.staged(
        lambda labels: slice_input_test(codes, labels, slices), lambda found: found[0].p_value if found else 1.0
    )


def _distances(codes: Codes, current: Bools) -> Floats:
    """(2 d,) Kolmogorov-Smirnov distances of the columns; 0 where a window knows none."""
    known = codes != UNKNOWN
    counts = [known[now].sum(axis=0) for now in (current, ~current)]
    largest: Floats = np.zeros(codes.shape[1])
    for level in range(LEVELS):
        below = known & (codes <= level)
        now, before = (
            below[window].sum(axis=0) / np.maximum(count, 1)
            for window, count in zip((current, ~current), counts, strict=True)
        )
        np.maximum(largest, np.abs(now - before), out=largest)
    return np.where(np.minimum(*counts) > 0, largest, 0.0)
