"""How well scores rank the salient cells above the others. Ties get their expected share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.metrics._arrays import (
    BoolArray,
    FloatArray,
    as_cells,
    as_selection,
    flatten_cells,
    ratio,
)


def _ranked(
    scores: ArrayLike, truth: ArrayLike, where: ArrayLike | None
) -> tuple[BoolArray, BoolArray, NDArray[np.int64], NDArray[np.int64]]:
    """Cells in descending order of score: salient, not salient, and the first and last place of each cell's
    ties.
    """
    r = as_cells(scores, "scores")
    exists = as_selection(where, r.shape, "where")
    salient = as_selection(truth, r.shape, "truth")
    values = flatten_cells(r)
    order = np.argsort(-values, axis=-1, kind="stable")
    values = np.take_along_axis(values, order, axis=-1)
    positive = np.take_along_axis(flatten_cells(salient & exists), order, axis=-1)
    negative = np.take_along_axis(flatten_cells(~salient & exists), order, axis=-1)
    places = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    changes = np.diff(values, axis=-1) != 0
    edge = np.ones_like(values[..., :1], dtype=np.bool_)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, changes], axis=-1), places, 0), axis=-1)
    ends = np.where(np.concatenate([changes, edge], axis=-1), places, values.shape[-1] - 1)
    last = np.minimum.accumulate(ends[..., ::-1], axis=-1)[..., ::-1]
    return positive, negative, first, last


def auroc(scores: ArrayLike, truth: ArrayLike, where: ArrayLike | None = None) -> FloatArray:
    """Area under the ROC curve: the chance that a salient cell outranks another one, a tie counting one half.

    One value for each leading index of (..., T, d); nan where all existing cells are salient, or none.

    Example:
        >>> auroc([[0.9, 0.8], [0.3, 0.1]], truth=[[1, 0], [1, 0]])
        array(0.75)
    """
    positive, negative, first, last = _ranked(scores, truth, where)
    above = positive.cumsum(axis=-1)
    upto = np.take_along_axis(above, last, axis=-1)
    before = np.take_along_axis(above - positive, first, axis=-1)
    wins = np.where(negative, (upto + before) / 2, 0.0).sum(axis=-1)
    return ratio(wins, np.asarray(positive.sum(axis=-1) * negative.sum(axis=-1)))


def auprc(scores: ArrayLike, truth: ArrayLike, where: ArrayLike | None = None) -> FloatArray:
    """Area under the precision-recall curve as average precision: sum over thresholds of (R_k - R_{k-1}) P_k.

    No interpolation between the points of the curve (that would flatter it). nan where no existing cell is
    salient.

    Example:
        >>> auprc([[0.9, 0.8], [0.3, 0.1]], truth=[[1, 0], [1, 0]]).round(3)
        np.float64(0.833)
    """
    positive, negative, _, last = _ranked(scores, truth, where)
    hits = np.take_along_axis(positive.cumsum(axis=-1), last, axis=-1)
    detected = np.take_along_axis((positive | negative).cumsum(axis=-1), last, axis=-1)
    gained = np.where(positive, ratio(hits, detected), 0.0).sum(axis=-1)
    return ratio(gained, np.asarray(positive.sum(axis=-1)))


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's: the correlation of the ranks of all values, ties at their mean rank; nan where a side is constant.

    Example:
        >>> round(rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]), 3)
        0.949
    """
    from scipy.stats import rankdata

    ranks = [np.ravel(rankdata(values)) for values in (first, second)]
    if any(not values.size or np.ptp(values) == 0 for values in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
