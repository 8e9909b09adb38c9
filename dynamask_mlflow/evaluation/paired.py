"""Masks beside their rivals on the same instances: intervals of means, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
FEWEST = 6  # pairs below which no sign test can reach p < .05 on one side
LOWER_IS_BETTER = ("acc", "sufficiency")
HAVE_A_ZERO = ("squared_error", "answer_shift")
RIVALS = ("random", "other")
_RESAMPLES = 999


def mean_interval(values: NDArray[Any], seed: int = 0) -> NDArray[np.float64]:
    """A 95 % interval of the mean over the last axis, by the bootstrap; NaN with fewer than two values.

    Args:
        values: (..., N) numbers; what is not finite is left out.

    Returns:
        NDArray: (2, ...) the lower and the upper ends.

    Example:
        >>> import numpy as np
        >>> mean_interval(np.array([1.0, 2.0, 3.0, np.nan])).round(2).tolist()
        [1.0, 3.0]
    """
    rows = np.asarray(values, dtype=np.float64).reshape(-1, np.shape(values)[-1])
    ends = np.full((2, len(rows)), np.nan)
    tail = 100 * (1 - LEVEL) / 2
    for place, row in enumerate(rows):
        known = row[np.isfinite(row)]
        if len(known) < 2:
            continue
        rng = np.random.default_rng(seed)
        means = known[rng.integers(len(known), size=(_RESAMPLES, len(known)))].mean(axis=1)
        ends[:, place] = np.percentile(means, [tail, 100 - tail])
    return ends.reshape(2, *np.shape(values)[:-1])


def paired_p(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """One-sided p-value of Wilcoxon's signed-rank test that `ours` is greater; NaN with fewer than six pairs.

    Example:
        >>> import numpy as np
        >>> paired_p(np.arange(1.0, 9.0), np.zeros(8)) < 0.01
        True
        >>> paired_p(np.zeros(8), np.zeros(8))
        1.0
    """
    from scipy.stats import wilcoxon

    change = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    change = change[np.isfinite(change)]
    if len(change) < FEWEST:
        return float("nan")
    if not change.any():
        return 1.0
    return float(wilcoxon(change, alternative="greater").pvalue)


def compare_with_rivals(each: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, Any]]:
    """Every measure that has rivals, as `report.Paired` takes it; the shift only where it has a zero."""
    found = {}
    for name, values in each.items():
        rivals = {rival: each[f"{name}/{rival}"] for rival in RIVALS if f"{name}/{rival}" in each}
        if "/" in name or name == "ce_shift" or not rivals:
            continue
        sign = -1.0 if name in LOWER_IS_BETTER else 1.0
        shift = each.get("ce_shift") if name == "ce" else values if name in HAVE_A_ZERO else None
        above: Mapping[str, Any] = each
        if name == "ce" and shift is not None:
            above = {f"ce/{rival}": each[f"ce_shift/{rival}"] for rival in rivals}
        low, high = mean_interval(shift) if shift is not None else (float("nan"),) * 2
        found[name] = {
            "shift": float("nan") if shift is None else _mean(shift),
            "low": float(low),
            "high": float(high),
            "instances": int(np.isfinite(values).sum()),
            "rivals": {
                rival: (_mean(above[f"{name}/{rival}"]), paired_p(sign * values, sign * theirs))
                for rival, theirs in rivals.items()
            },
        }
    return found


def _mean(values: NDArray[Any]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
