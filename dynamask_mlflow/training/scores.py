"""How good and how honest predicted risks are: discrimination and calibration, on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics

FloatArray = NDArray[np.float64]


def auroc(risk: NDArray[Any], labels: NDArray[Any]) -> float:
    """The chance that a stay with an event is ranked above one without; ties count half."""
    return float(metrics.auroc(np.asarray(risk)[None], np.asarray(labels)[None] == 1))


def auprc(risk: NDArray[Any], labels: NDArray[Any]) -> float:
    """The area under precision against recall."""
    return float(metrics.auprc(np.asarray(risk)[None], np.asarray(labels)[None] == 1))


def calibration(risk: NDArray[Any], labels: NDArray[Any], bins: int = 10) -> list[dict[str, float]]:
    """Predicted risk against observed share of events in bins of equal numbers of stays.

    Example:
        >>> bins = calibration(np.array([0.1, 0.3, 0.7, 0.9]), np.array([0, 0, 1, 1]), bins=2)
        >>> [(round(row["predicted"], 2), row["observed"]) for row in bins]
        [(0.2, 0.0), (0.8, 1.0)]
    """
    order = np.argsort(risk, kind="stable")
    return [
        {
            "predicted": float(np.mean(risk[part])),
            "observed": float(np.mean(labels[part])),
            "stays": float(len(part)),
        }
        for part in np.array_split(order, min(bins, len(order)))
    ]


def score(risk: NDArray[Any], labels: NDArray[Any]) -> dict[str, float]:
    """AUROC, AUPRC, Brier score mean (p - y)^2, expected calibration error, and calibration-in-the-large.

    Example:
        >>> score(np.array([0.1, 0.9]), np.array([0, 1]))["auroc"]
        1.0
    """
    table = calibration(risk, labels)
    gap = sum(abs(row["predicted"] - row["observed"]) * row["stays"] for row in table) / len(risk)
    return {
        "auroc": auroc(risk, labels),
        "auprc": auprc(risk, labels),
        "brier": float(np.mean(np.square(risk - labels))),
        "calibration_error": float(gap),
        "predicted_rate": float(np.mean(risk)),
        "observed_rate": float(np.mean(labels)),
    }
