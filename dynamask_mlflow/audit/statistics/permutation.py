"""Permutations of whole patients: the stays of one patient are alike, and must move together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels

Result = TypeVar("Result")
_CHUNK = 1 << 20  # labels that are numbers at a time: memory does not grow with stays x permutations
_MOST = 2000  # stays of each window between which distances are taken
FEW = 1999
SETTLED = 0.05  # a p-value above this in a few permutations needs no more of them


@dataclass(frozen=True)
class Permutations:
    """Labels of two windows: `few` settle what is nowhere near an alarm, and only the rest is worth `all`."""

    current: Bools
    patients: NDArray[Any]
    count: int
    seed: int

    @cached_property
    def few(self) -> Labels:
        return permuted_labels(self.current, self.patients, min(FEW, self.count), self.seed)

    @cached_property
    def all(self) -> Labels:
        if self.count <= FEW:
            return self.few
        rest = permuted_labels(self.current, self.patients, self.count - FEW, self.seed + 0x5EED)
        return np.concatenate([self.few, rest[1:]])

    def staged(self, test: Callable[[Labels], Result], smallest: Callable[[Result], float]) -> Result:
        """A test with a few permutations, and with all of them if its `smallest` p-value leaves the matter open."""
        found = test(self.few)
        return found if self.count <= FEW or smallest(found) > SETTLED else test(self.all)


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
    labels = np.empty((count + 1, len(current)), dtype=np.uint8)
    labels[0] = current
    for rows in in_chunks(labels[1:]):
        drawn = labels[1:][rows]
        by_patient = np.zeros((len(drawn), len(names)), dtype=bool)
        by_patient[:, alone] = rng.permuted(np.tile(now[alone], (len(drawn), 1)), axis=1)
        by_patient[:, both] = rng.random((len(drawn), int(both.sum()))) < 0.5
        drawn[:] = by_patient[:, code]
        drawn[:, both[code]] ^= current[both[code]]
    return labels


def mean_differences(values: Floats, labels: Labels) -> Floats:
    """(B, k): for each row of labels, the current window's mean of values (n, k) minus the reference's."""
    wide = values.astype(np.float64)
    total, size = wide.sum(axis=0), labels.shape[1]
    result: Floats = np.empty((len(labels), wide.shape[1]))
    for rows in in_chunks(labels):
        weights = labels[rows].astype(np.float64)
        now = weights.sum(axis=1, keepdims=True)
        ahead = weights @ wide
        result[rows] = ahead / now - (total - ahead) / (size - now)
    return result


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


def in_chunks(table: NDArray[Any]) -> Iterator[slice]:
    """Slices of rows of a table, which together hold at most so many values."""
    rows = max(1, _CHUNK // max(table.shape[1], 1))
    for start in range(0, len(table), rows):
        yield slice(start, start + rows)


def at_most(labels: Labels) -> NDArray[np.intp]:
    """Positions of so many stays of each window, where all would cost too much."""
    rng = np.random.default_rng(0)
    parts = [rng.permutation(np.flatnonzero(labels[0] == k))[:_MOST] for k in (0, 1)]
    return np.sort(np.concatenate(parts))


def energy_distances(points: Floats, labels: Labels) -> Floats:
    """(B,): for each row of labels, 2 E|X - Y| - E|X - X'| - E|Y - Y'| with Euclidean distances.

    All pairs would cost the square of the stays: of larger windows so many stays are drawn.
    """
    chosen = at_most(labels)
    if len(chosen) < len(points):
        points, labels = points[chosen], labels[:, chosen]
    distance = _distances(points)
    whole, size = float(distance.sum(dtype=np.float64)), labels.shape[1]
    result: Floats = np.empty(len(labels))
    for rows in in_chunks(labels):
        weights = labels[rows].astype(np.float32)
        now = weights.sum(axis=1, dtype=np.float64)
        before = size - now
        reached = weights @ distance
        inside = np.einsum("bi,bi->b", reached, weights, dtype=np.float64)
        out = reached.sum(axis=1, dtype=np.float64) - inside
        rest = whole - inside - 2 * out
        # Of the stays that were drawn, all may fall into one window: then there is no distance.
        with np.errstate(divide="ignore", invalid="ignore"):
            each = 2 * out / (now * before) - inside / now**2 - rest / before**2
        result[rows] = np.where((now > 0) & (before > 0), each, 0.0)
    return result


def _distances(points: Floats) -> NDArray[np.float32]:
    """(n, n) Euclidean distances, in pieces: whole, their squares would need several times the memory."""
    square = np.square(points).sum(axis=1)
    distance = np.empty((len(points), len(points)), dtype=np.float32)
    for rows in in_chunks(distance):
        gap = square[rows, None] + square[None] - 2 * points[rows] @ points.T
        distance[rows] = np.sqrt(np.maximum(gap, 0.0))
    np.fill_diagonal(distance, 0.0)
    return distance


def upper_tail(statistics: Floats) -> Floats:
    """The p-value of every row of a permutation distribution: the share of rows at least as large."""
    order = np.sort(statistics)
    tolerance = 1e-12 * max(1.0, float(np.abs(order[-1])))
    return 1.0 - np.searchsorted(order, statistics - tolerance, side="left") / len(order)
