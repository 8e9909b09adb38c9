"""Means over instances with their intervals, and paired tests on the same instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamask_mlflow.metrics._arrays import FloatArray

LEVEL = 0.95
FEWEST = 6  # pairs below which no sign test can reach p < .05 on one side
CONTROLS = ("random", "other")
LOWER_IS_BETTER = ("acc", "sufficiency")
HAVE_A_ZERO = ("squared_error", "answer_shift")
_RESAMPLES = 999


def mean_interval(values: ArrayLike, seed: int = 0) -> FloatArray:
    """A 95 % interval of the mean over the last axis, by the bootstrap; NaN with fewer than six values, for which a
    bootstrap is far too narrow.

    Args:
        values: (..., N) numbers; what is not finite is left out.

    Returns:
        NDArray: (2, ...) the lower and the upper ends.

    Example:
        >>> mean_interval(np.array([1.0, 2.0, 2.0, 2.0, 2.0, 3.0, np.nan])).round(2).tolist()
        [1.67, 2.5]
    """
    rows = np.asarray(values, dtype=np.float64).reshape(-1, np.shape(values)[-1])
    ends = np.full((2, len(rows)), np.nan)
    tail = 100 * (1 - LEVEL) / 2
    for place, row in enumerate(rows):
        known = row[np.isfinite(row)]
        if len(known) < FEWEST:
            continue
        rng = np.random.default_rng(seed)
        means = known[rng.integers(len(known), size=(_RESAMPLES, len(known)))].mean(axis=1)
        ends[:, place] = np.percentile(means, [tail, 100 - tail])
    return ends.reshape(2, *np.shape(values)[:-1])


def paired_p(ours: ArrayLike, theirs: ArrayLike) -> float:
    """One-sided p-value of Wilcoxon's signed-rank test that `ours` is greater; NaN with fewer than six pairs.

    Example:
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


def mean_of_known(values: ArrayLike) -> float:
    """The mean of the finite values; NaN without any.

    Example:
        >>> mean_of_known([1.0, 3.0, np.nan])
        2.0
    """
    array = np.asarray(values, dtype=np.float64)
    known = array[np.isfinite(array)]
    return float(known.mean()) if len(known) else float("nan")


def compare_with_controls(each: Mapping[str, FloatArray]) -> dict[str, dict[str, Any]]:
    """Every measure beside the same measure of its controls.

    Args:
        each: name -> (N,) of the masks, "<name>/random" of random cells, "<name>/other" of another instance's mask.

    Returns:
        dict: name -> `shift` with its interval `low`, `high`, NaN for measures without a zero; `instances`; and
            `controls`, each with its own shift and the p-value of a paired test that the masks are better.

    Example:
        >>> each = {"answer_shift": np.arange(1.0, 9.0), "answer_shift/random": np.zeros(8)}
        >>> compare_with_controls(each)["answer_shift"]["controls"]
        {'random': (0.0, 0.00390625)}
    """
    found = {}
    for name, values in each.items():
        controls = {control: each[f"{name}/{control}"] for control in CONTROLS if f"{name}/{control}" in each}
        if "/" in name or name == "ce_shift" or not controls:
            continue
        sign = -1.0 if name in LOWER_IS_BETTER else 1.0
        shift = each.get("ce_shift") if name == "ce" else values if name in HAVE_A_ZERO else None
        above = "ce_shift" if name == "ce" and shift is not None else name
        low, high = mean_interval(shift) if shift is not None else (np.nan, np.nan)
        found[name] = {
            "shift": float("nan") if shift is None else mean_of_known(shift),
            "low": float(low),
            "high": float(high),
            "instances": int(np.isfinite(values).sum()),
            "controls": {
                control: (mean_of_known(each[f"{above}/{control}"]), paired_p(sign * values, sign * theirs))
                for control, theirs in controls.items()
            },
        }
    return found
