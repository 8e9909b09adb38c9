"""AUP and AUR of the appendix: exact areas under precision and recall over the detection threshold."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamask_mlflow.metrics._arrays import FloatArray, as_mask, as_selection, flatten_cells, ratio


def aup(mask: ArrayLike, truth: ArrayLike, where: ArrayLike | None = None) -> FloatArray:
    """AUP = integral over tau in (0, 1) of P(tau) = |A and (M >= tau)| / |M >= tau|.

    P is a step function with jumps at the mask's values, so the integral is a finite sum and no grid is
    needed. Above the greatest mask value no cell is detected and P is undefined: there its last defined
    value is held. A constant mask hence scores the share of salient cells, whatever its level, and a
    perfect binary mask scores 1.

    Args:
        mask: (..., T, d) in [0, 1].
        truth: boolean, the salient cells A.
        where: the cells that exist; None for all of them.

    Returns:
        One value for each leading index; nan where A is empty. To pool instances pass (N T, d).

    Example:
        >>> aup([[0.9, 0.1], [0.8, 0.2]], truth=[[1, 0], [1, 0]]).round(2)
        np.float64(0.92)
    """
    m = as_mask(mask)
    exists = as_selection(where, m.shape, "where")
    salient = as_selection(truth, m.shape, "truth") & exists
    values = flatten_cells(np.where(exists, m, 0.0))
    order = np.argsort(-values, axis=-1, kind="stable")
    values = np.take_along_axis(values, order, axis=-1)
    hits = np.take_along_axis(flatten_cells(salient), order, axis=-1).cumsum(axis=-1)
    detected = np.take_along_axis(flatten_cells(exists), order, axis=-1).cumsum(axis=-1)
    precision = ratio(hits, detected)
    # Cells of equal value enter together: inside such a block the steps are of width 0 and drop out of the
    # sum.
    below = np.concatenate([values[..., 1:], np.zeros_like(values[..., :1])], axis=-1)
    area: FloatArray = (np.nan_to_num(precision) * (values - below)).sum(axis=-1)
    top = (values == values[..., :1]).sum(axis=-1, keepdims=True) - 1
    held = np.take_along_axis(precision, top, axis=-1)[..., 0]
    return np.where(salient.any(axis=(-2, -1)), area + held * (1 - values[..., 0]), np.nan)


def aur(mask: ArrayLike, truth: ArrayLike, where: ArrayLike | None = None) -> FloatArray:
    """AUR = integral over (0, 1) of R(tau) = |A and (M >= tau)| / |A|, which is the mean mask value on A.

    Example:
        >>> aur([[0.9, 0.1], [0.8, 0.2]], truth=[[1, 0], [1, 0]]).round(2)
        np.float64(0.85)
    """
    m = as_mask(mask)
    salient = as_selection(truth, m.shape, "truth") & as_selection(where, m.shape, "where")
    return ratio(np.where(salient, m, 0.0).sum(axis=(-2, -1)), np.asarray(salient.sum(axis=(-2, -1))))
