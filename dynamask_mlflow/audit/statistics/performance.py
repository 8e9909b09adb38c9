"""How well scores tell outcomes, for many weightings of the same stays at once: permutations and bootstraps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.marginals import Floats
from dynamask_mlflow.audit.statistics.permutation import in_chunks

Scores = dict[str, Floats]
_SURE = 0.01  # an outcome at a still lower risk would outweigh a hundred stays


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
    first = np.searchsorted(ranked, ranked, side="left")
    last = np.searchsorted(ranked, ranked, side="right")

    def of(part: Floats) -> Scores:
        w = part[:, order]
        everyone, positive = _sums(w), _sums(w * cases)
        negative = everyone - positive
        all_cases, others = positive[:, -1], negative[:, -1]
        behind = 0.5 * (negative[:, first] + negative[:, last])
        found = positive[:, -1:] - positive[:, first]
        flagged = everyone[:, -1:] - everyone[:, first]
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(flagged > 0, found / flagged, 0.0)
            return {
                "auroc": (w * cases * behind).sum(axis=1) / (all_cases * others),
                "auprc": (w * cases * precision).sum(axis=1) / np.where(others > 0, all_cases, 0.0),
                "brier": w @ np.square(ranked - cases) / everyone[:, -1],
                "calibration": w @ (cases - ranked) / everyone[:, -1],
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


def surprise(scores: Floats, outcomes: Floats) -> Floats:
    """(n,) observed minus predicted in standard deviations, (y - p) / sqrt(p (1 - p)).

    Its mean tells what calibration-in-the-large does, but an outcome where hardly any was predicted weighs more: a few
    more outcomes at low risk show in it far earlier.
    """
    sure = np.clip(scores, _SURE, 1 - _SURE)
    return np.asarray((outcomes - scores) / np.sqrt(sure * (1 - sure)))


def _sums(weights: Floats) -> Floats:
    """(B, n + 1) running sums that begin with 0."""
    sums: Floats = np.zeros((len(weights), weights.shape[1] + 1))
    np.cumsum(weights, axis=1, out=sums[:, 1:])
    return sums


def _in_parts(of: Callable[[Floats], Scores], weights: NDArray[np.floating]) -> Scores:
    parts = [of(weights[rows].astype(np.float64)) for rows in in_chunks(weights)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
