"""How well a ranking, a mask and its coefficients agree with the known salient cells.

All arrays are (N, T, d). `exists` leaves cells out, such as padding; None counts every cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow import metrics as m

FloatArray = NDArray[np.float64]

FLOOR = 0.05
"""Cells of a smaller coefficient take no part in the calibration error: nearly all cells have one of about 0."""
BINS = 10


@dataclass(frozen=True, eq=False)
class MaskScores:
    """Precision, recall and F1 of a binary mask, (N,) each. An empty mask has precision 0."""

    precision: FloatArray
    recall: FloatArray
    f1: FloatArray


def mask_scores(binary: ArrayLike, truth: ArrayLike, exists: ArrayLike | None = None) -> MaskScores:
    """F1 = 2 |M and A| / (|M| + |A|), M the mask's cells and A the salient ones."""
    salient = np.asarray(truth, dtype=np.bool_)
    chosen = np.asarray(binary, dtype=np.bool_) & _existing(exists, salient.shape)
    hits = (chosen & salient).sum((1, 2))
    size, wanted = chosen.sum((1, 2)), salient.sum((1, 2))
    return MaskScores(
        precision=hits / np.maximum(size, 1),
        recall=hits / np.maximum(wanted, 1),
        f1=2 * hits / np.maximum(size + wanted, 1),
    )


def cut_shares(cells: int) -> FloatArray:
    """Shares of 1, 2, 3 ... 30 cells, then a factor of 1.1 apart, up to all."""
    sizes = np.unique(np.r_[1:31, np.round(1.1 ** np.arange(0, np.log(cells) / np.log(1.1) + 1))].clip(1, cells))
    return np.asarray(sizes / cells)


def cut_f1(scores: ArrayLike, truth: ArrayLike, exists: ArrayLike | None = None) -> FloatArray:
    """(len(cut_shares),) mean F1 of the best cells of a ranking, with one share for all instances."""
    ranking, salient = np.asarray(scores), np.asarray(truth, dtype=np.bool_)
    there = _existing(exists, salient.shape)
    flat = np.where(there, ranking, -np.inf).reshape(len(ranking), -1)
    order = np.argsort(-flat, axis=1, kind="stable")
    hits = np.take_along_axis((salient & there).reshape(flat.shape), order, 1).cumsum(1)
    count, wanted = there.sum((1, 2)), salient.sum((1, 2))
    sizes = np.maximum(np.round(cut_shares(flat.shape[1])[:, None] * count), 1).astype(np.int64)
    found = np.stack([hits[np.arange(len(hits)), size - 1] for size in sizes])
    return np.asarray((2 * found / (sizes + wanted)).mean(1))


RULES: tuple[tuple[str, float], ...] = (
    *(("size", value) for value in (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
    *(("mass", value) for value in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
    *(("share", value) for value in (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)),
)
"""Ways to make a mask of any scores without the truth: cells of at least so much of the largest score, the first cells
that hold so much of the sum of the scores, that share of the cells."""


def rule_f1(scores: ArrayLike, truth: ArrayLike, exists: ArrayLike | None = None) -> FloatArray:
    """(len(RULES),) mean F1 of the masks that each rule makes. Scores below zero count as zero."""
    salient = np.asarray(truth, dtype=np.bool_)
    there = _existing(exists, salient.shape).reshape(len(salient), -1)
    flat = np.where(there, np.clip(np.asarray(scores, dtype=np.float64).reshape(there.shape), 0, None), -np.inf)
    order = np.argsort(-flat, axis=1, kind="stable")
    ordered = np.clip(np.take_along_axis(flat, order, 1), 0, None)
    before = ordered.cumsum(1) - ordered
    total, rank = ordered.sum(1, keepdims=True), np.arange(flat.shape[1])[None]
    number = there.sum(1, keepdims=True)
    hits = np.take_along_axis(salient.reshape(there.shape) & there, order, 1)
    found = []
    for kind, value in RULES:
        if kind == "size":
            chosen = (ordered >= value * ordered[:, :1]) & (ordered > 0)
        elif kind == "mass":
            chosen = (before < value * total) & (ordered > 0)
        else:
            chosen = rank < np.maximum(np.round(value * number), 1)
        found.append((2 * (hits & chosen).sum(1) / np.maximum(chosen.sum(1) + hits.sum(1), 1)).mean())
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Bins:
    """Cells by coefficient, in bins of equal width: how many, the sum of their coefficients, how many are salient."""

    count: FloatArray
    total: FloatArray
    salient: FloatArray

    @property
    def error(self) -> float:
        """Expected calibration error: sum over bins of n_b / n times |mean coefficient - share of salient cells|."""
        n = self.count.sum()
        return float(np.abs(self.total - self.salient).sum() / n) if n else float("nan")


def calibration_bins(coefficients: ArrayLike, truth: ArrayLike, exists: ArrayLike | None = None) -> Bins:
    """Bins of the cells whose coefficient is at least FLOOR."""
    values, salient = np.asarray(coefficients, dtype=np.float64), np.asarray(truth, dtype=np.bool_)
    chosen = (values >= FLOOR) & _existing(exists, salient.shape)
    values, hits = values[chosen], salient[chosen]
    where = np.minimum((values * BINS).astype(np.int64), BINS - 1)
    return Bins(
        np.bincount(where, minlength=BINS).astype(np.float64),
        np.bincount(where, weights=values, minlength=BINS).astype(np.float64),
        np.bincount(where, weights=hits.astype(np.float64), minlength=BINS).astype(np.float64),
    )


def pooled(parts: Sequence[Bins]) -> Bins:
    """The bins of several rows as one."""
    return Bins(
        np.sum([p.count for p in parts], axis=0),
        np.sum([p.total for p in parts], axis=0),
        np.sum([p.salient for p in parts], axis=0),
    )


def calibration_error(coefficients: ArrayLike, truth: ArrayLike, exists: ArrayLike | None = None) -> float:
    return calibration_bins(coefficients, truth, exists).error


def brier(coefficients: ArrayLike, truth: ArrayLike, exists: ArrayLike | None = None) -> FloatArray:
    """(N,) sum over cells of (coefficient - truth)^2, over the number of salient cells: 1 for a mask of zeros."""
    values, salient = np.asarray(coefficients, dtype=np.float64), np.asarray(truth, dtype=np.bool_)
    squares = np.square(values - salient) * _existing(exists, salient.shape)
    return np.asarray(squares.sum((1, 2)) / np.maximum(salient.sum((1, 2)), 1))


def doubt(coefficients: ArrayLike, exists: ArrayLike | None = None) -> FloatArray:
    """(N,) entropy of the coefficients over their sum: what a user sees of the uncertainty of a mask."""
    values = np.clip(np.asarray(coefficients, dtype=np.float64), 0, 1)
    total = (values * _existing(exists, values.shape)).sum((1, 2))
    return np.asarray(m.entropy(values, exists) / np.maximum(total, 1e-12))


def _existing(exists: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[Any]:
    return np.ones(shape, dtype=np.bool_) if exists is None else np.broadcast_to(np.asarray(exists, np.bool_), shape)
