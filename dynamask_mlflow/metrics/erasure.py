"""The loss of the predicted class's probability: of it ERASER makes comprehensiveness and sufficiency, its means over
`ERASER_AREAS` without the best cells and with them alone (`evaluation/erasure`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamask_mlflow.metrics._arrays import FloatArray
from dynamask_mlflow.metrics.shift import as_class_probabilities, predicted_class

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
