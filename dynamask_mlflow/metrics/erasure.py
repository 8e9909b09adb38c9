"""Comprehensiveness and sufficiency (ERASER): predictions without the best cells, and with them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.metrics._arrays import FloatArray, as_cells, as_selection
from dynamask_mlflow.metrics.cells import replace_cells, top_cells
from dynamask_mlflow.metrics.shift import as_class_probabilities, predicted_class

Predict = Callable[[NDArray[Any]], ArrayLike]
Baseline = ArrayLike | Literal["time_mean", "zero"]
Cells = tuple[NDArray[np.bool_], NDArray[np.bool_]]

ERASER_AREAS = (0.01, 0.05, 0.1, 0.2, 0.5)


def probability_drop(p: ArrayLike, p_perturbed: ArrayLike, multiclass: bool = False) -> FloatArray:
    """p[class(p)] - p_perturbed[class(p)] of each instance, averaged over its output steps: shape (N,).

    `p_perturbed` may have one more axis in front, for several perturbations; then the shape is (that many,
    N).

    Example:
        >>> probability_drop([0.9, 0.2], [0.6, 0.2]).round(2)
        array([0.3, 0. ])
    """
    before = as_class_probabilities(p, "p", multiclass)
    after = as_class_probabilities(p_perturbed, "p_perturbed", multiclass)
    if after.shape[after.ndim - before.ndim :] != before.shape or after.ndim - before.ndim not in (0, 1):
        raise ValueError(
            f"Expected p_perturbed of shape {np.shape(p)}, or with one axis before it, but got {np.shape(p_perturbed)}."
        )
    chosen = np.broadcast_to(predicted_class(before)[..., None], (*after.shape[:-1], 1))
    wide = np.broadcast_to(before, after.shape)
    drop = (np.take_along_axis(wide, chosen, axis=-1) - np.take_along_axis(after, chosen, axis=-1))[..., 0]
    lead = drop.shape[: drop.ndim - before.ndim + 2]
    return np.asarray(drop.reshape(*lead, -1).mean(axis=-1))


def _best(x: ArrayLike, scores: ArrayLike, areas: Sequence[float], observed: ArrayLike | None) -> Iterator[Cells]:
    """For each area the best cells of x, and the others that exist."""
    r, shape = as_cells(scores, "scores"), np.shape(x)
    if r.shape != shape or len(shape) != 3:
        raise ValueError(f"Expected x and scores of one shape (N, T, d), but got {shape} and {r.shape}.")
    if not len(areas):
        raise ValueError("Expected at least one area, but got none.")
    exists = as_selection(observed, r.shape, "observed")
    for area in areas:
        best = top_cells(r, area, exists)
        yield best, ~best & exists


def _mean_drop(
    predict: Predict,
    x: ArrayLike,
    removals: Iterable[NDArray[np.bool_]],
    baseline: Baseline,
    observed: ArrayLike | None,
    multiclass: bool,
) -> FloatArray:
    """The drop of the predicted class's probability without each set of cells, averaged over the sets."""
    values, sets = np.asarray(x), list(removals)
    p = predict(values)
    after = (predict(replace_cells(values, gone, baseline, observed)) for gone in sets)
    return np.asarray(np.mean([probability_drop(p, without, multiclass) for without in after], axis=0))


def comprehensiveness(
    predict: Predict,
    x: ArrayLike,
    scores: ArrayLike,
    areas: Sequence[float] = ERASER_AREAS,
    baseline: Baseline = "time_mean",
    observed: ArrayLike | None = None,
    multiclass: bool = False,
) -> FloatArray:
    """Mean over the areas of p(x)[c] - p(x without its best cells)[c], c the predicted class.

    The bins are ERASER's (1, 5, 10, 20 and 50 % of the cells) and each counts equally; removed cells are
    replaced by `baseline`. Higher is better. Returns one value an instance: (N,).

    Example:
        >>> x = np.array([[[1.0, 5.0], [3.0, 5.0]]])
        >>> risk = lambda x: 1 / (1 + np.exp(-x[:, -1, 0]))
        >>> comprehensiveness(risk, x, scores=[[[0, 0], [1, 0]]], areas=[0.25]).round(3)
        array([0.072])
    """
    best = (cells for cells, _ in _best(x, scores, areas, observed))
    return _mean_drop(predict, x, best, baseline, observed, multiclass)


def sufficiency(
    predict: Predict,
    x: ArrayLike,
    scores: ArrayLike,
    areas: Sequence[float] = ERASER_AREAS,
    baseline: Baseline = "time_mean",
    observed: ArrayLike | None = None,
    multiclass: bool = False,
) -> FloatArray:
    """Mean over the areas of p(x)[c] - p(x with its best cells alone)[c]; lower is better.

    Example:
        >>> x = np.array([[[1.0, 5.0], [3.0, 5.0]]])
        >>> risk = lambda x: 1 / (1 + np.exp(-x[:, -1, 0]))
        >>> sufficiency(risk, x, scores=[[[0, 0], [1, 0]]], areas=[0.25]).round(3)
        array([0.])
    """
    others = (cells for _, cells in _best(x, scores, areas, observed))
    return _mean_drop(predict, x, others, baseline, observed, multiclass)
