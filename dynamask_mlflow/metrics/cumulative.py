"""Cumulative prediction difference and preservation (CPD and CPP; TIMING, 2025).

Removing many cells at once lets their effects cancel. Here they go one by one, and the changes add up:

    CPD = sum_{k=0}^{K-1} || F(x_k) - F(x_{k+1}) ||_1,   x_k the input without its k most important cells,

and CPP is the same sum with the least important cells removed first. The reading used: F is the vector of
class probabilities (so a binary p counts twice, as p and 1 - p), the norm sums over classes, and outputs at
several steps are averaged; `OutputReading(class_mean=True)` divides by the number of classes, as the code released with
TIMING does. Cells are ordered by the scores as given: pass |scores| for a signed method. Equal scores are
taken in time-major order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.metrics._arrays import FloatArray, as_cells, as_selection
from dynamask_mlflow.metrics.cells import replace_cells
from dynamask_mlflow.metrics.erasure import Baseline, Predict
from dynamask_mlflow.metrics.shift import as_class_probabilities, as_predictions


@dataclass(frozen=True)
class OutputReading:
    """How predictions are read.

    Attributes:
        multiclass: the last axis holds the classes. class_mean: changes are averaged over the classes, not summed.
        regression: predictions are values.
    """

    multiclass: bool = False
    class_mean: bool = False
    regression: bool = False

    def __call__(self, values: ArrayLike) -> FloatArray:
        """(N, ..., C): classes, or values with C = 1."""
        if self.regression:
            return as_predictions(values, "predictions")[..., None]
        return as_class_probabilities(values, "predictions", self.multiclass)


PROBABILITIES = OutputReading()


def cumulative_difference(predictions: Sequence[ArrayLike], reading: OutputReading = PROBABILITIES) -> FloatArray:
    """sum_k ||F_k - F_{k+1}||_1 of each instance (N,), from predictions (K + 1, N, ...) along a path.

    Example:
        >>> cumulative_difference([[0.9], [0.7], [0.6]], OutputReading(regression=True)).round(2)
        array([0.3])
    """
    if len(predictions) < 1:
        raise ValueError("Expected predictions along a path of removals, but got none.")
    return _accumulate(iter(predictions), reading)[-1]


def _accumulate(predictions: Iterator[ArrayLike], reading: OutputReading) -> list[FloatArray]:
    """The running sums after 0, 1, 2, ... removals."""
    before = reading(next(predictions))
    sums = [np.zeros(len(before))]
    for values in predictions:
        after = reading(values)
        if after.shape != before.shape:
            raise ValueError(f"Expected predictions of one shape, but got {before.shape} and {after.shape}.")
        change = np.abs(after - before)
        change = change.mean(axis=-1) if reading.class_mean else change.sum(axis=-1)
        sums.append(sums[-1] + change.reshape(len(change), -1).mean(axis=-1))
        before = after
    return sums


def _removals(
    predict: Predict, x: NDArray[np.floating], order: NDArray[np.int64], k: int, baseline: FloatArray
) -> Iterator[ArrayLike]:
    flat, fill = x.reshape(len(x), -1).copy(), baseline.reshape(len(x), -1)
    rows = np.arange(len(x))
    yield predict(x)
    for place in range(k):
        cell = order[:, place]
        flat[rows, cell] = fill[rows, cell]
        yield predict(flat.reshape(x.shape).copy())


def _path(
    predict: Predict,
    x: ArrayLike,
    scores: FloatArray,
    k: int | Sequence[int],
    baseline: Baseline,
    observed: ArrayLike | None,
    reading: OutputReading,
) -> FloatArray:
    """The running sums after k removals, the highest scores first."""
    values, ks = np.asarray(x), [k] if isinstance(k, int) else list(k)
    if scores.shape != values.shape or values.ndim != 3:
        raise ValueError(f"Expected x and scores of one shape (N, T, d), but got {values.shape} and {scores.shape}.")
    exists = as_selection(observed, scores.shape, "observed").reshape(len(scores), -1)
    fewest = int(exists.sum(axis=-1).min()) if len(scores) else 0
    if not ks or min(ks) < 1 or max(ks) > fewest:
        raise ValueError(f"Expected each k in [1, {fewest}], the fewest cells of an instance, but got {ks}.")
    order = np.argsort(np.where(exists, -scores.reshape(len(scores), -1), np.inf), axis=-1, kind="stable")
    fill = replace_cells(values, np.ones(values.shape, dtype=np.bool_), baseline, observed)
    sums = _accumulate(_removals(predict, values, order, max(ks), fill), reading)
    return sums[k] if isinstance(k, int) else np.stack([sums[count] for count in ks])


def cpd(
    predict: Predict,
    x: ArrayLike,
    scores: ArrayLike,
    k: int | Sequence[int] = 50,
    baseline: Baseline = "time_mean",
    observed: ArrayLike | None = None,
    reading: OutputReading = PROBABILITIES,
) -> FloatArray:
    """Cumulative prediction difference, the k most important cells removed first; higher is better.

    Args:
        predict: x (N, T, d) to probabilities (N, ...), or to values, as `reading` says.
        k: how many cells to remove; several values share one path and give (len(k), N) instead of (N,).
        baseline: what a removed cell becomes: "time_mean", "zero", or an array that broadcasts to x.
        observed: cells that exist; others are never removed.

    Example:
        >>> x = np.array([[[1.0, 5.0], [3.0, 5.0]]])
        >>> risk = lambda x: 1 / (1 + np.exp(-x[:, -1, 0]))
        >>> cpd(risk, x, scores=[[[0, 0], [1, 0]]], k=1).round(3)
        array([0.144])
    """
    return _path(predict, x, as_cells(scores, "scores"), k, baseline, observed, reading)


def cpp(
    predict: Predict,
    x: ArrayLike,
    scores: ArrayLike,
    k: int | Sequence[int] = 50,
    baseline: Baseline = "time_mean",
    observed: ArrayLike | None = None,
    reading: OutputReading = PROBABILITIES,
) -> FloatArray:
    """Cumulative prediction preservation, the k least important cells removed first; lower is better.

    Example:
        >>> x = np.array([[[1.0, 5.0], [3.0, 5.0]]])
        >>> risk = lambda x: 1 / (1 + np.exp(-x[:, -1, 0]))
        >>> cpp(risk, x, scores=[[[0, 0], [1, 0]]], k=2).round(3)
        array([0.])
    """
    return _path(predict, x, -as_cells(scores, "scores"), k, baseline, observed, reading)
