"""Mask information and mask entropy (section 2.4 of the paper), and their normalised versions (appendix)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamask_mlflow.metrics._arrays import FloatArray, as_mask, as_selection, ratio

EPSILON = 1e-5
"""Masks are clipped to [0, 1 - EPSILON] before their information is taken, which diverges at 1."""


def _log_unit(base: float | None) -> float:
    if base is None:
        return 1.0
    if not base > 1:
        raise ValueError(f"Expected base > 1, or None for the natural logarithm, but got {base}.")
    return float(np.log(base))


def _check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < 1:
        raise ValueError(f"Expected epsilon in (0, 1), but got {epsilon}.")


def information(
    mask: ArrayLike, where: ArrayLike | None = None, base: float | None = None, epsilon: float = EPSILON
) -> FloatArray:
    """Information of a mask on the cells A = `where`: I_M(A) = - sum_A ln(1 - m).

    Mask values are clipped from above alone, to 1 - epsilon, so a cell of value 0 carries exactly no
    information and one of value 1 carries - ln(epsilon), 11.51 nats (16.61 bits) by default.

    Args:
        mask: (..., T, d) in [0, 1].
        where: the cells A, broadcast to the mask's shape; None for all of them.
        base: of the logarithm; None for the natural one.

    Returns:
        One value for each leading index: () for (T, d), (N,) for (N, T, d).

    Example:
        >>> information([[0.5, 0.0]]).round(3)
        np.float64(0.693)
    """
    _check_epsilon(epsilon)
    m = as_mask(mask)
    chosen = as_selection(where, m.shape, "where")
    cells = -np.log1p(-np.minimum(m, 1 - epsilon))
    total: FloatArray = np.where(chosen, cells, 0.0).sum(axis=(-2, -1))
    return total / _log_unit(base)


def entropy(mask: ArrayLike, where: ArrayLike | None = None, base: float | None = None) -> FloatArray:
    """Entropy of a mask on the cells A = `where`: S_M(A) = - sum_A [m ln m + (1 - m) ln(1 - m)], with 0 ln
    0 = 0.

    Example:
        >>> entropy([[0.5, 1.0]], base=2).round(3)
        np.float64(1.0)
    """
    m = as_mask(mask)
    chosen = as_selection(where, m.shape, "where")
    inner = (m > 0) & (m < 1)
    p = np.where(inner, m, 0.5)
    cells = np.where(inner & chosen, -p * np.log(p) - (1 - p) * np.log1p(-p), 0.0)
    total: FloatArray = cells.sum(axis=(-2, -1))
    return total / _log_unit(base)


def normalized_information(mask: ArrayLike, where: ArrayLike, epsilon: float = EPSILON) -> FloatArray:
    """Share of the mask's information that lies in A: i_M(A) = I_M(A) / I_M(all); nan for a mask of zeros.

    Example:
        >>> normalized_information([[0.5, 0.0]], where=[[True, False]]).round(3)
        np.float64(1.0)
    """
    return ratio(np.asarray(information(mask, where, epsilon=epsilon)), np.asarray(information(mask, epsilon=epsilon)))


def normalized_entropy(mask: ArrayLike, where: ArrayLike) -> FloatArray:
    """Share of the mask's entropy that lies in A: s_M(A) = S_M(A) / S_M(all); nan for a binary mask.

    Example:
        >>> normalized_entropy([[0.5, 1.0]], where=[[True, True]]).round(3)
        np.float64(1.0)
    """
    return ratio(np.asarray(entropy(mask, where)), np.asarray(entropy(mask)))


def information_ratio(mask: ArrayLike, where: ArrayLike | None = None, epsilon: float = EPSILON) -> FloatArray:
    """I_M(A) / I_max(A), where I_max(A) = - |A| ln(epsilon) belongs to the mask that is 1 on all of A.

    Free of the arbitrary cap: 1 for a mask that lights every cell of A, whatever epsilon; nan for an empty A.

    Example:
        >>> information_ratio([[0.5, 0.0]]).round(3)
        np.float64(0.03)
    """
    m = as_mask(mask)
    chosen = as_selection(where, m.shape, "where")
    most = -np.log(epsilon) * chosen.sum(axis=(-2, -1))
    return ratio(np.asarray(information(m, chosen, epsilon=epsilon)), np.asarray(most))
