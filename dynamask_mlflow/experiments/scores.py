"""What the masks of a case are worth when the salient cells are known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from dynamask_mlflow import metrics as m
from dynamask_mlflow.experiments.protocol import Case
from dynamask_mlflow.masks.result import Masks

TRUTH_COLUMNS: Mapping[str, str] = {
    "aup": "AUP",
    "aur": "AUR",
    "information": "I_M(A)",
    "information_ratio": "I/Imax",
    "entropy": "S_M(A)",
    "auroc": "AUROC",
    "auprc": "AUPRC",
}
CURVE_AREAS = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15)
MOTIF_COLUMNS: Mapping[str, str] = {
    "auprc": "AUPRC",
    "auroc": "AUROC",
    "precision": "precision",
    "recall": "recall",
    "aup": "AUP",
    "aur": "AUR",
    "information_ratio": "I/Imax",
    "area": "area",
    "accuracy": "model acc.",
}


def truth_scores(case: Case, masks: Masks) -> Mapping[str, float]:
    """Each metric of each instance, averaged over the instances of the case.

    AUP, AUR, information and entropy judge the mask; AUROC and AUPRC judge the scores, the full ordering.
    Information and entropy are in nats, of the salient cells of one instance.
    """
    if case.truth is None:
        raise ValueError("Expected a case whose salient cells are known, but it has none.")
    truth = np.broadcast_to(case.truth, masks.masks.shape)
    chosen = masks.binary
    hits = (chosen & truth).sum(axis=(1, 2))
    values = {
        "aup": m.aup(masks.masks, truth),
        "aur": m.aur(masks.masks, truth),
        "information": m.information(masks.masks, truth),
        "information_ratio": m.information_ratio(masks.masks, truth),
        "entropy": m.entropy(masks.masks, truth),
        "auroc": m.auroc(masks.scores, truth),
        "auprc": m.auprc(masks.scores, truth),
        "precision": hits / np.maximum(chosen.sum(axis=(1, 2)), 1),
        "recall": hits / np.maximum(truth.sum(axis=(1, 2)), 1),
        "area": masks.area,
    }
    return {name: float(np.mean(value)) for name, value in values.items()}


def rare_scores(case: Case, masks: Masks) -> Mapping[str, float]:
    """`truth_scores`, and the curve of the error against the area."""
    return {**truth_scores(case, masks), **error_curve(case, masks)}


def error_curve(case: Case, masks: Masks, areas: tuple[float, ...] = CURVE_AREAS) -> Mapping[str, float]:
    """error/a: the squared error with all but the best share a of the cells at their time mean, over that of no cell.

    The same for every method: cells are taken in the order of the scores.
    """
    x = case.x.astype(np.float32)

    def outputs(values: NDArray[np.float32]) -> NDArray[np.float64]:
        with torch.no_grad():
            return np.asarray(case.model(torch.from_numpy(values)).flatten(1), dtype=np.float64)

    reference = outputs(x)

    def error(kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.asarray(np.square(outputs(m.replace_by_time_mean(x, ~kept)) - reference).sum(axis=1))

    empty = error(np.zeros(x.shape, dtype=np.bool_))
    curve = {a: error(m.top_cells(masks.scores, a)) / np.maximum(empty, 1e-12) for a in areas}
    return {f"error/{a:g}": float(np.mean(share)) for a, share in curve.items()}
