"""nDCG of the channels' order, as SageMaker Clarify reports it for feature attributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def ndcg(reference: ArrayLike, current: ArrayLike) -> float:
    """DCG of the reference's shares in the current order over the DCG in their own order; 1: same order.

    DCG = sum_r share[r] / log2(r + 1) with ranks r from 1. Blind to the sizes of the current shares: the top
    channel sent to the last place still gives about .9.
    """
    before, now = np.asarray(reference, dtype=np.float64), np.asarray(current, dtype=np.float64)
    if before.shape != now.shape or before.ndim != 1 or not len(before):
        raise ValueError(f"Expected two profiles of one length, but got {before.shape} and {now.shape}.")
    discount = 1 / np.log2(np.arange(2, len(before) + 2))
    ideal = float(np.sort(before)[::-1] @ discount)
    order = np.argsort(-now, kind="stable")
    return float(before[order] @ discount) / ideal if ideal > 0 else float("nan")
