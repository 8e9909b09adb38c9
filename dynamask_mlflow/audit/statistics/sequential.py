"""Weak changes over many audits: e-values that add up, without adding up the false alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Cusum:
    """The state after each audit.

    Attributes:
        values: e-CUSUM after each audit.
        effects: mean of the last `window` effects at each audit.
        alarms: True where both are beyond their thresholds.
    """

    values: tuple[float, ...]
    effects: tuple[float, ...]
    alarms: tuple[bool, ...]


def e_value(p: float, kappa: float = 0.5) -> float:
    """kappa p^(kappa - 1): a bet against the hypothesis whose mean is at most 1 when p is uniform."""
    if not 0 < p <= 1 or not 0 < kappa < 1:
        raise ValueError(f"Expected p in (0, 1] and kappa in (0, 1), but got {p} and {kappa}.")
    return float(kappa * p ** (kappa - 1))


def e_cusum(
    p_values: ArrayLike,
    effects: Sequence[float],
    threshold: float = 20.0,
    effect: float = 0.02,
    window: int = 3,
) -> Cusum:
    """S_k = e(p_k) max(S_(k-1), 1), alarming at S_k >= threshold with a mean recent effect of some size.

    Unchanged, the expected number of audits before S reaches the threshold is at least the threshold.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if len(p) != len(effects):
        raise ValueError(f"Expected one effect a p-value, but got {len(effects)} for {len(p)}.")
    state, values, recent, alarms = 0.0, [], [], []
    for place, value in enumerate(p):
        state = e_value(float(value)) * max(state, 1.0)
        values.append(state)
        recent.append(float(np.mean(effects[max(0, place - window + 1) : place + 1])))
        alarms.append(state >= threshold and recent[-1] >= effect and place + 1 >= window)
    return Cusum(tuple(values), tuple(recent), tuple(alarms))
