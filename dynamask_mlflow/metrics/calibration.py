"""Whether predicted risks are the rates that are observed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

_FEWEST_IN_BAND = 8
_MOST_BANDS = 10


def calibration_bands(risk: ArrayLike, outcomes: ArrayLike) -> list[dict[str, float]]:
    """Predicted and observed rates in bands of equal size, with Wilson's interval; none with fewer than two bands.

    Args:
        risk: (N,) predicted probabilities.
        outcomes: (N,) 0 or 1.

    Example:
        >>> bands = calibration_bands(np.linspace(0, 1, 16), np.arange(16) > 7)
        >>> [(band["observed"], band["instances"]) for band in bands]
        [(0.0, 8.0), (1.0, 8.0)]
    """
    from scipy.stats import binomtest

    predicted, happened = np.asarray(risk, dtype=np.float64), np.asarray(outcomes).astype(np.bool_)
    bands = min(_MOST_BANDS, len(predicted) // _FEWEST_IN_BAND)
    if bands < 2:
        return []
    rows = []
    for part in np.array_split(np.argsort(predicted, kind="stable"), bands):
        events = int(happened[part].sum())
        interval = binomtest(events, len(part)).proportion_ci(method="wilson")
        rows.append(
            {
                "predicted": float(predicted[part].mean()),
                "observed": events / len(part),
                "low": float(interval.low),
                "high": float(interval.high),
                "instances": float(len(part)),
            }
        )
    return rows
