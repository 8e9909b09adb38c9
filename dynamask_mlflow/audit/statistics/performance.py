"""How well scores predict outcomes, for many weightings of the same stays at once: permutations and bootstraps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.marginals import Floats
from dynamask_mlflow.audit.statistics.permutation import in_chunks

Scores = dict[str, Floats]


def classification_scores(scores: Floats, outcomes: Floats, weights: NDArray[np.floating]) -> Scores:
    """AUROC, AUPRC (average precision), Brier score and calibration-in-the-large (observed minus predicted).

    Args:
        scores: (n,) predicted risks. outcomes: (n,) 0 or 1. weights: (B, n), for instance 0 and 1 of a permutation.

    Returns:
        name -> (B,); NaN where a row has no case or no other stay. With weights of 1 they are scikit-learn's
        `roc_auc_score`, `average_precision_score` and `brier_score_loss`.
    """
    order = np.argsort(scores, kind="stable")
    ranked, cases = scores[order], outcomes[order].astype(np.float64)
    begins = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))  # stays of one score count together

    def of(part: Floats) -> Scores:
        w = part[:, order]
        everyone, positive = (np.add.reduceat(each, begins, axis=1) for each in (w, w * cases))
        negative = everyone - positive
        total, all_cases, others = (each.sum(axis=1) for each in (everyone, positive, negative))
        behind = np.cumsum(negative, axis=1) - 0.5 * negative
        found = all_cases[:, None] - np.cumsum(positive, axis=1) + positive
        flagged = total[:, None] - np.cumsum(everyone, axis=1) + everyone
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(flagged > 0, found / flagged, 0.0)
            return {
                "auroc": (positive * behind).sum(axis=1) / (all_cases * others),
                "auprc": (positive * precision).sum(axis=1) / np.where(others > 0, all_cases, 0.0),
                "brier": w @ np.square(ranked - cases) / total,
                "calibration": w @ (cases - ranked) / total,
            }

    return _in_parts(of, weights)


def regression_scores(values: Floats, outcomes: Floats, weights: NDArray[np.floating]) -> Scores:
    """Mean absolute error and bias (observed minus predicted), as `classification_scores`."""
    errors = outcomes - values

    def of(part: Floats) -> Scores:
        total = part.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return {"error": part @ np.abs(errors) / total, "calibration": part @ errors / total}

    return _in_parts(of, weights)


def recalibrated(scores: Floats, outcomes: Floats) -> Floats:
    """(n,) risks as observed: the isotonic regression of (n,) outcomes on the scores, each block with one case and one
    other stay more than it has, so that no risk is 0 or 1.

    >>> recalibrated(np.array([0.1, 0.2, 0.7, 0.9]), np.array([0.0, 0.0, 1.0, 1.0])).tolist()
    [0.25, 0.25, 0.75, 0.75]
    """
    from scipy.optimize import isotonic_regression

    order = np.argsort(scores, kind="stable")
    cases = outcomes[order].astype(np.float64)
    begins = np.asarray(isotonic_regression(cases).blocks, dtype=np.intp)
    sizes = np.diff(begins)
    risks: Floats = np.empty(len(scores))
    risks[order] = np.repeat((np.add.reduceat(cases, begins[:-1]) + 1) / (sizes + 2), sizes)
    return risks


def weighted_residuals(scores: Floats, outcomes: Floats) -> Floats:
    """(n, 3) observed minus predicted, y - p; then (y - q) / sqrt(q (1 - q)) and (y - q) / (q (1 - q)), with q
    recalibrated.

    The mean of the first is calibration-in-the-large, and the score of a shift that multiplies all odds. That of the
    last is the score of a shift that adds the same risk to all stays: an outcome weighs more the less it was expected.
    Each is the most powerful test of its own shift, and the one between them is good at both. All stays are
    recalibrated together, so that a permutation of windows leaves q as it is.

    >>> weighted_residuals(np.array([0.1, 0.2, 0.7, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]))[2].round(2).tolist()
    [0.3, 0.58, 1.33]
    """
    risks = recalibrated(scores, outcomes)
    residuals, spread = outcomes - risks, risks * (1 - risks)
    return np.column_stack([outcomes - scores, residuals / np.sqrt(spread), residuals / spread])


def _in_parts(of: Callable[[Floats], Scores], weights: NDArray[np.floating]) -> Scores:
    parts = [of(weights[rows].astype(np.float64)) for rows in in_chunks(weights)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
