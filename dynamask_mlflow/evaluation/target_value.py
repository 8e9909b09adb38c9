"""What a model says about one target: the number behind "the risk of death" or "the value at horizon 6"."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.masks.target_spec import Target, parse_target
from dynamask_mlflow.metrics.shift import PROBABILITY_EPSILON, predicted_class


def value_of(outputs: NDArray[Any], target: Target, task: str, like: NDArray[Any] | None = None) -> NDArray[Any] | None:
    """(N,) a probability or a value; None where the target is not one number of the outputs.

    Args:
        outputs: probabilities (N, C) or (N, T, C), or values (N,), (N, H) or (N, T, C).
        like: outputs whose predicted class is meant where the target names none; by default `outputs`.
    """
    if target.function is not None:
        return None
    values = np.asarray(outputs, dtype=np.float64)
    if task == "classification":
        chosen = target.output if target.output is not None else 1 if values.shape[-1] == 2 else None
        if chosen is not None:
            values = values[..., chosen]
        else:
            predicted = predicted_class(np.asarray(values if like is None else like, dtype=np.float64))
            values = np.take_along_axis(values, predicted[..., None], axis=-1)[..., 0]
    elif target.output is not None and values.ndim > 1:
        values = values[..., target.output]
    if target.step is not None and values.ndim > 1:
        values = values[:, target.step]
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    return values if values.ndim == 1 else None


def answer_shift(
    before: NDArray[Any], after: NDArray[Any], direction: NDArray[Any], target: str, task: str
) -> NDArray[np.float64] | None:
    """(N,) how far the answer moves back towards its reference: in log-odds, or in the value's units.

    Positive: what was removed had moved the answer. NaN where there is nothing to explain; None where the target is
    not one number of the outputs.

    Example:
        >>> before, after = np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([[0.5, 0.5], [0.8, 0.2]])
        >>> answer_shift(before, after, np.array([1, -1]), "auto", "classification").round(2).tolist()
        [1.39, 0.81]
    """
    if target.startswith("callable:"):
        return None
    spec = parse_target(target)
    first, second = value_of(before, spec, task), value_of(after, spec, task, like=before)
    if first is None or second is None:
        return None
    if task == "classification":
        first, second = _log_odds(first), _log_odds(second)
    way = np.sign(np.asarray(direction, dtype=np.float64))
    return np.where(way != 0, way * (first - second), np.nan)


def _log_odds(p: NDArray[Any]) -> NDArray[np.float64]:
    clipped = np.clip(p, PROBABILITY_EPSILON, 1 - PROBABILITY_EPSILON)
    return np.asarray(np.log(clipped / (1 - clipped)))
