"""The control arm: did the inputs move? Kolmogorov-Smirnov by channel, on values and on missing rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import benjamini_hochberg
from dynamask_mlflow.audit.statistics.permutation import upper_tail

_CHUNK = 1 << 20
_FIRST = 200


@dataclass(frozen=True, eq=False)
class InputTest:
    """(d,) each.

    Attributes:
        value_gap, missing_gap: Kolmogorov-Smirnov distances of the stays' means and missing rates.
        value_q, missing_q: p-values, adjusted over all of them together (Benjamini-Hochberg).
    """

    value_gap: Floats
    missing_gap: Floats
    value_q: Floats
    missing_q: Floats

    def moved(self, level: float) -> tuple[int, ...]:
        """Positions of the channels whose values or missing rates changed."""
        return tuple(int(i) for i in np.flatnonzero(np.minimum(self.value_q, self.missing_q) <= level))


def input_test(values: Floats, missing: Floats, labels: Labels) -> InputTest:
    """Test one number a stay and channel: the mean of what was measured, and the share that was not.

    Args:
        values: (n, d), NaN where a channel was never measured in the stay.
        missing: (n, d) in [0, 1].
        labels: from `permuted_labels`, so that stays of one patient move together.
    """
    channels = values.shape[1]
    gaps, p = np.zeros(2 * channels), np.ones(2 * channels)
    for place, column in enumerate([*values.T, *missing.T]):
        known = np.isfinite(column)
        now, before = known & (labels[0] > 0), known & (labels[0] == 0)
        if now.any() and before.any() and len(np.unique(column[known])) > 1:
            gaps[place], p[place] = _chance(column, labels, known)
    q = benjamini_hochberg(p)
    return InputTest(gaps[:channels], gaps[channels:], q[:channels], q[channels:])


def _chance(column: Floats, labels: Labels, known: Bools) -> tuple[float, float]:
    """The observed distance and its p-value; a few permutations settle a channel that is nowhere near a change."""
    for rows in (_FIRST, len(labels)):
        distances = _distances(column[known], labels[:rows] if known.all() else labels[:rows, known])
        p = float(upper_tail(distances)[0])
        if p > 0.1:
            break
    return float(distances[0]), p


def _distances(column: Floats, labels: Labels) -> Floats:
    """(B,) largest gap between the two empirical distribution functions, for each row of labels."""
    order = np.argsort(column, kind="stable")
    ranked = column[order]
    last = np.append(ranked[1:] != ranked[:-1], True)  # ties: both functions are compared after the last
    found = np.empty(len(labels))
    rows = max(1, _CHUNK // len(column))
    for start in range(0, len(labels), rows):
        part = labels[start : start + rows][:, order]
        now = np.cumsum(part, axis=1, dtype=np.float32)
        total = now[:, -1:]
        before = np.arange(1, len(column) + 1, dtype=np.float32) - now
        gap = now / np.maximum(total, 1) - before / np.maximum(len(column) - total, 1)
        found[start : start + rows] = np.abs(gap[:, last]).max(axis=1)
    return found
