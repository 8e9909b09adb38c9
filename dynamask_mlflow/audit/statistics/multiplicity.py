"""Many tests at once: Westfall-Young step-down by shared permutations, Benjamini-Hochberg, Holm."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamask_mlflow.audit.statistics.marginals import Floats


def step_down(statistics: Floats) -> Floats:
    """Adjusted p-values of k tests from one (B, k) permutation distribution whose row 0 was observed.

    Westfall and Young: the test of rank r is compared with the maximum over itself and all weaker ones.
    Controls the chance of any false finding, and uses how the tests depend on each other.
    """
    observed = statistics[0]
    order = np.argsort(-observed, kind="stable")
    largest = np.maximum.accumulate(statistics[:, order[::-1]], axis=1)[:, ::-1]
    tolerance = 1e-12 * np.maximum(1.0, np.abs(observed[order]))
    raw = (largest >= observed[order] - tolerance).mean(axis=0)
    adjusted: Floats = np.empty(len(raw))
    adjusted[order] = np.maximum.accumulate(raw)
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Adjusted p-values whose rejection at q keeps the expected share of false findings below q."""
    from scipy.stats import false_discovery_control

    p = np.asarray(p_values, dtype=np.float64)
    return np.asarray(false_discovery_control(p, method="bh")) if len(p) else p


def holm(p_values: ArrayLike) -> Floats:
    """Adjusted p-values whose rejection at a keeps the chance of any false finding below a."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    scaled = p[order] * (len(p) - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def standardized(statistics: Floats) -> Floats:
    """(B, k) statistics in units of their own permutation distribution (rows 1 on), so that their maximum is fair.

    A column that never varies is 0.
    """
    centre, spread = statistics[1:].mean(axis=0), statistics[1:].std(axis=0)
    return np.where(spread > 1e-12, (statistics - centre) / np.where(spread > 1e-12, spread, 1.0), 0.0)


def ranked(values: Floats) -> Floats:
    """Mid-ranks in (0, 1) of the known ones among (n,) values; NaN stays.

    >>> ranked(np.array([3.0, 1.0, np.nan, 3.0])).round(3).tolist()
    [0.667, 0.167, nan, 0.667]
    """
    from scipy.stats import rankdata

    known = np.isfinite(values)
    places: Floats = np.full(len(values), np.nan)
    if known.any():
        places[known] = (rankdata(values[known]) - 0.5) / known.sum()
    return places


def scaled(gaps: Floats) -> Floats:
    """(B, k) sizes of differences in standard deviations over the permutations (rows 1 on); 0 if one never varies."""
    spread = gaps[1:].std(axis=0)
    return np.asarray(np.abs(gaps) / np.where(spread > 1e-12, spread, np.inf))
