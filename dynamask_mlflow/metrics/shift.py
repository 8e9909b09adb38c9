"""How far predictions move when the input is perturbed: CE and ACC of the appendix, and squared error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.metrics._arrays import FloatArray, finite

PROBABILITY_EPSILON = 1e-7
"""Probabilities are clipped to [epsilon, 1] before their logarithm: a saturated float32 sigmoid is exactly
0.
"""


def as_predictions(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim < 1:
        raise ValueError(f"Expected {name} with one entry an instance, but got a scalar.")
    return finite(array, name)


def as_class_probabilities(values: ArrayLike, name: str, multiclass: bool) -> FloatArray:
    """Probabilities with the classes last: p becomes (1 - p, p) where `multiclass` is False."""
    p = as_predictions(values, name)
    if p.size and (p.min() < -1e-6 or p.max() > 1 + 1e-6):
        raise ValueError(f"Expected {name} in [0, 1], but got [{p.min():g}, {p.max():g}]: are these logits?")
    if not multiclass:
        return np.stack([1 - p, p], axis=-1)
    if p.ndim < 2:
        raise ValueError(f"Expected {name} of shape (N, ..., C) with the classes last, but got {p.shape}.")
    if p.size and not np.allclose(p.sum(axis=-1), 1, atol=1e-3):
        raise ValueError(f"Expected {name} to sum to 1 over the last axis, but got sums up to {p.sum(-1).max():g}.")
    return p


def predicted_class(probabilities: FloatArray) -> NDArray[np.int64]:
    """class(p): the most likely class; p = .5 is class 1 in the binary case, as in the appendix."""
    if probabilities.shape[-1] == 2:
        return (probabilities[..., 1] >= 0.5).astype(np.int64)
    return np.asarray(probabilities.argmax(axis=-1))


def _pair(p: ArrayLike, q: ArrayLike, multiclass: bool) -> tuple[FloatArray, FloatArray]:
    before = as_class_probabilities(p, "p", multiclass)
    after = as_class_probabilities(q, "p_perturbed", multiclass)
    if before.shape != after.shape:
        raise ValueError(f"Expected p and p_perturbed of one shape, but got {np.shape(p)} and {np.shape(q)}.")
    return before, after


def _reduced(values: NDArray[Any], per_instance: bool) -> FloatArray:
    each = values.reshape(len(values), -1).mean(axis=-1)
    return each if per_instance else np.asarray(each.mean())


def cross_entropy_shift(
    p: ArrayLike,
    p_perturbed: ArrayLike,
    multiclass: bool = False,
    per_instance: bool = False,
    epsilon: float = PROBABILITY_EPSILON,
) -> FloatArray:
    """CE = - 1/K sum_k ln p_perturbed,k[class(p_k)]: the log-loss of the perturbed prediction; higher is a
    larger shift.

    Args:
        p: probability of class 1, shape (N,) or (N, T); with `multiclass` the classes are the last axis.
        p_perturbed: the same for the perturbed inputs.
        per_instance: (N,) values instead of their mean. Predictions at several steps are averaged.

    Example:
        >>> cross_entropy_shift([0.9, 0.2], [0.6, 0.2]).round(3)
        np.float64(0.367)
    """
    before, after = _pair(p, p_perturbed, multiclass)
    kept = np.take_along_axis(after, predicted_class(before)[..., None], axis=-1)[..., 0]
    return _reduced(-np.log(np.clip(kept, epsilon, 1)), per_instance)


def accuracy_shift(
    p: ArrayLike, p_perturbed: ArrayLike, multiclass: bool = False, per_instance: bool = False
) -> FloatArray:
    """ACC = share of predictions whose class survives the perturbation; lower is a larger shift.

    Example:
        >>> accuracy_shift([0.9, 0.2], [0.4, 0.2])
        array(0.5)
    """
    before, after = _pair(p, p_perturbed, multiclass)
    return _reduced(predicted_class(before) == predicted_class(after), per_instance)


def squared_error_shift(y: ArrayLike, y_perturbed: ArrayLike, per_instance: bool = False) -> FloatArray:
    """Mean over the instances of sum_{t, i} (y - y_perturbed)^2, the L_e of a regression; higher is a
    larger shift.

    Example:
        >>> squared_error_shift([1.0, 2.0], [1.0, 4.0])
        array(2.)
    """
    before, after = as_predictions(y, "y"), as_predictions(y_perturbed, "y_perturbed")
    if before.shape != after.shape:
        raise ValueError(f"Expected y and y_perturbed of one shape, but got {before.shape} and {after.shape}.")
    each: FloatArray = ((before - after) ** 2).reshape(len(before), -1).sum(axis=-1)
    return each if per_instance else np.asarray(each.mean())
