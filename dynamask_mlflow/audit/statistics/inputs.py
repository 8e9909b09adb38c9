"""The input arm: did values, or gaps in the charting, move? On decile codes, which reveal no value.

Each stay has one number a channel: the mean of what was measured, and the share that was not. What is stored and tested
is its place among the deciles of the reference window: 2 x the deciles below it, plus 1 for each that it is equal to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.marginals import Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import benjamini_hochberg, standardized, step_down
from dynamask_mlflow.audit.statistics.permutation import Permutations, at_most, in_chunks, upper_tail

Codes = NDArray[np.int8]
DECILES = 9
LEVELS = 2 * DECILES + 1
UNKNOWN = -1
_DIGITS = 6  # means of equal values differ in their last bits
_CELLS = 1 << 24  # of indicators at a time
_TAIL = 0.05  # beyond it a handful of stays would decide


@dataclass(frozen=True, eq=False)
class InputTest:
    """(d,) each.

    Attributes:
        value_gap, missing_gap: Kolmogorov-Smirnov distances of the stays' means and missing rates, at the deciles.
        value_q, missing_q: p-values, adjusted over all of them together (Benjamini-Hochberg).
        value_p, missing_p: the same with control of any false finding (Westfall-Young step-down).
        value_shift, missing_shift: change of the mean percentile within the reference window, in [-1, 1].
    """

    value_gap: Floats
    missing_gap: Floats
    value_q: Floats
    missing_q: Floats
    value_p: Floats
    missing_p: Floats
    value_shift: Floats
    missing_shift: Floats

    def moved(self, level: float) -> tuple[int, ...]:
        """Positions of the channels whose values or missing rates changed."""
        return tuple(int(i) for i in np.flatnonzero(np.minimum(self.value_q, self.missing_q) <= level))


def decile_edges(values: Floats) -> Floats:
    """(k, 9) deciles of (n, k) numbers; NaN for a column that is never known."""
    edges = np.full((values.shape[1], DECILES), np.nan)
    for place, column in enumerate(np.round(values, _DIGITS).T):
        known = column[np.isfinite(column)]
        if len(known):
            edges[place] = np.quantile(known, np.arange(1, DECILES + 1) / (DECILES + 1))
    return np.round(edges, _DIGITS)


def decile_codes(values: Floats, edges: Floats) -> Codes:
    """(n, k) codes from 0 to 18 of (n, k) numbers; -1 where one is not known.

    >>> decile_codes(np.array([[0.0], [5.0], [99.0]]), np.arange(1.0, 10.0)[None]).ravel().tolist()
    [0, 9, 18]
    """
    codes = np.full(values.shape, UNKNOWN, dtype=np.int8)
    for place, column in enumerate(np.round(values, _DIGITS).T):
        known = np.isfinite(column)
        if np.isfinite(edges[place]).all():
            sides = [np.searchsorted(edges[place], column[known], side=side) for side in ("left", "right")]
            codes[known, place] = sides[0] + sides[1]
    return codes


def input_test(codes: Codes, labels: Labels) -> InputTest:
    """Test (n, 2 d) codes: those of the channels' values, then those of their missing rates.

    Args:
        labels: from `permuted_labels`, so that stays of one patient move together.
    """
    chosen = at_most(labels)
    few = len(chosen) < len(codes)
    statistics, gap, shift = _gaps(codes[chosen], labels[:, chosen]) if few else _gaps(codes, labels)
    p = np.where(gap > 0, np.apply_along_axis(lambda column: upper_tail(column)[0], 0, statistics), 1.0)
    q, family = benjamini_hochberg(p), step_down(standardized(statistics))
    d = codes.shape[1] // 2
    return InputTest(gap[:d], gap[d:], q[:d], q[d:], family[:d], family[d:], shift[:d], shift[d:])


def staged_input_test(codes: Codes, draws: Permutations) -> InputTest:
    """`input_test` by as many permutations as it needs."""
    return draws.staged(
        lambda labels: input_test(codes, labels), lambda test: min(test.value_p.min(), test.missing_p.min())
    )


def _gaps(codes: Codes, labels: Labels) -> tuple[Floats, Floats, Floats]:
    """Compare the distribution functions F of both windows at the deciles, column by column.

    Returns:
        (B, k) largest gap in standard deviations, |F_now - F_before| / sqrt(F (1 - F)) with the pooled F; (k,) largest
        gap as it is (Kolmogorov-Smirnov); (k,) shifts of the mean percentile. The first is what is tested: a fault in
        one stay of five moves a tenth of the stays beyond the last decile, where chance moves less than in the middle.
    """
    n, columns = codes.shape
    statistics: Floats = np.zeros((len(labels), columns))
    largest, shift = np.zeros(columns), np.zeros(columns)
    step = max(1, _CELLS // max(n * LEVELS, 1))
    for start in range(0, columns, step):
        part = codes[:, start : start + step]
        # The last level is 1 wherever a stay is known: its sum is the number of known stays.
        below = ((part[:, :, None] <= np.arange(LEVELS)) & (part != UNKNOWN)[:, :, None]).astype(np.float32)
        flat = below.reshape(n, -1)
        total = flat.sum(axis=0, dtype=np.float64).reshape(below.shape[1:])
        pooled = np.clip(total / np.maximum(total[:, -1:], 1), _TAIL, 1 - _TAIL)
        weight = 1 / np.sqrt(pooled * (1 - pooled))
        for rows in in_chunks(labels):
            now = (labels[rows].astype(np.float32) @ flat).reshape(-1, *below.shape[1:]).astype(np.float64)
            before = total - now
            known = (now[..., -1:] > 0) & (before[..., -1:] > 0)
            gap = now / np.maximum(now[..., -1:], 1) - before / np.maximum(before[..., -1:], 1)
            gap = np.where(known, gap, 0.0)
            statistics[rows, start : start + step] = (np.abs(gap) * weight).max(axis=-1)
            if rows.start == 0:
                largest[start : start + step] = np.abs(gap[0]).max(axis=-1)
                shift[start : start + step] = -gap[0, :, :-1].mean(axis=-1)
    return statistics, largest, shift
