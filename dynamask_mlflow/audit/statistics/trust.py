"""Is there anything to audit? Masks must tell more about their own patient than somebody else's would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynamask_mlflow.audit.statistics.marginals import Floats


@dataclass(frozen=True)
class TrustResult:
    """p-values of paired one-sided Wilcoxon tests, and shares of the stays in which the own mask wins.

    Attributes:
        p_other, p_mean_map: against another stay's mask, and against the mean map of all others.
        wins_other, wins_mean_map: shares of wins, ties counting half.
        instances: how many pairs. enough: at least the minimum.
        trusted: both p-values are at most alpha, with enough pairs.
    """

    p_other: float
    p_mean_map: float
    wins_other: float
    wins_mean_map: float
    instances: int
    enough: bool
    trusted: bool


def check_trust(own: Floats, other: Floats, mean_map: Floats, alpha: float = 0.01, minimum: int = 20) -> TrustResult:
    """Compare how far predictions move (CE or squared error) when the cells of each mask are removed."""
    known = np.isfinite(own) & np.isfinite(other) & np.isfinite(mean_map)
    tests = [signed_rank(own[known] - control[known]) for control in (other, mean_map)]
    wins = [
        float(np.mean((own > control)[known] + 0.5 * (own == control)[known])) if known.any() else float("nan")
        for control in (other, mean_map)
    ]
    enough = int(known.sum()) >= minimum
    return TrustResult(
        p_other=tests[0],
        p_mean_map=tests[1],
        wins_other=wins[0],
        wins_mean_map=wins[1],
        instances=int(known.sum()),
        enough=enough,
        trusted=enough and max(tests) <= alpha,
    )


def signed_rank(differences: Floats) -> float:
    """Wilcoxon's signed-rank test of differences against 0, one-sided (greater), with the normal
    approximation, mid-ranks for ties and a continuity correction; zeros are left out. 1 if nothing is left.
    """
    from scipy.stats import wilcoxon

    d = differences[differences != 0]
    if not len(d):
        return 1.0
    test = wilcoxon(d, alternative="greater", correction=True, method="asymptotic")
    return float(test.pvalue) if np.isfinite(test.pvalue) else 1.0
