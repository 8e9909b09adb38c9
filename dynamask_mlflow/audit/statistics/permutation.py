"""Permutations of whole patients: the stays of one patient are alike, and must move together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels


def permuted_labels(current: Bools, patients: NDArray[Any], count: int, seed: int) -> Labels:
    """(count + 1, n) labels, 1 for the current window and 0 for the reference; row 0 is what was observed.

    Patients with stays in one window only exchange their labels among each other; one with stays in both
    keeps them together and swaps its windows with probability 1/2. Under the hypothesis that the windows are
    alike, both leave the joint distribution as it is.
    """
    if current.shape != patients.shape or current.ndim != 1:
        raise ValueError(
            f"Expected one label and one patient an instance, but got {current.shape} and {patients.shape}."
        )
    if current.all() or not current.any():
        raise ValueError("Expected instances in the reference and in the current window, but one is empty.")
    rng = np.random.default_rng([seed, 0xA0D17])
    names, code = np.unique(patients, return_inverse=True)
    now = np.bincount(code, weights=current, minlength=len(names)) > 0
    before = np.bincount(code, weights=~current, minlength=len(names)) > 0
    both = now & before
    alone = np.flatnonzero(~both)
    by_patient = np.zeros((count, len(names)), dtype=bool)
    by_patient[:, alone] = rng.permuted(np.tile(now[alone], (count, 1)), axis=1)
    by_patient[:, both] = rng.random((count, int(both.sum()))) < 0.5
    drawn = by_patient[:, code]
    drawn[:, both[code]] ^= current[both[code]]
    return np.concatenate([current[None], drawn]).astype(np.float32)


def mean_differences(values: Floats, labels: Labels) -> Floats:
    """(B, k): for each row of labels, the current window's mean of values (n, k) minus the reference's."""
    wide = values.astype(np.float64)
    weights = labels.astype(np.float64)
    now = weights.sum(axis=1, keepdims=True)
    ahead = weights @ wide
    result: Floats = ahead / now - (wide.sum(axis=0) - ahead) / (labels.shape[1] - now)
    return result


def energy_distances(points: Floats, labels: Labels) -> Floats:
    """(B,): for each row of labels, 2 E|X - Y| - E|X - X'| - E|Y - Y'| with Euclidean distances."""
    square = np.square(points).sum(axis=1)
    gap = np.maximum(square[:, None] + square[None] - 2 * points @ points.T, 0.0)
    np.fill_diagonal(gap, 0.0)
    distance = np.sqrt(gap).astype(np.float32)
    now = labels.sum(axis=1, dtype=np.float64)
    before = labels.shape[1] - now
    reached = labels @ distance
    inside = np.einsum("bi,bi->b", reached, labels, dtype=np.float64)
    out = reached.sum(axis=1, dtype=np.float64) - inside
    rest = float(distance.sum(dtype=np.float64)) - inside - 2 * out
    result: Floats = 2 * out / (now * before) - inside / now**2 - rest / before**2
    return result


def upper_tail(statistics: Floats) -> Floats:
    """The p-value of every row of a permutation distribution: the share of rows at least as large."""
    order = np.sort(statistics)
    tolerance = 1e-12 * max(1.0, float(np.abs(order[-1])))
    return 1.0 - np.searchsorted(order, statistics - tolerance, side="left") / len(order)
