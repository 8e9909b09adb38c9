"""What the masks of a case are worth when the salient cells are known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
    truth = np.broadcast_to(case.truth, masks.masks.shape)
    chosen = masks.masks >= 0.5
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
