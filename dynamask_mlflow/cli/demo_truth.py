"""How much of the planted truth each method finds, on deaths that the model foresaw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dynamask_mlflow.data import StayDataset
    from dynamask_mlflow.data.hospital import Truth
    from dynamask_mlflow.tracking.sequence_model import SequenceModel

METHODS = {"dynamask": "nested", "integrated_gradients": "ig", "random": "random"}
STATIC = ("Gender", "Age", "Ethnicity", "FirstICUStay")


@dataclass(frozen=True)
class TruthFound:
    """Mean AUROC and AUPRC of the planted cells for each method over the same stays.

    Attributes:
        deaths: with planted cells. foreseen: those of them that the model predicted. stays: those compared.
        planted: mean share of the cells that is planted.
        scores: method to {"auroc", "auprc"}.
        wins: share of the stays on which the masks rank the planted cells better than Integrated Gradients.
    """

    deaths: int
    foreseen: int
    stays: int
    planted: float
    scores: dict[str, dict[str, float]]
    wins: float


def find_truth(model: SequenceModel, stays: StayDataset, truth: Truth, limit: int = 60) -> TruthFound:
    """Explain up to `limit` stays with every method and compare with the planted cells.

    Channels that never change are left out: a mask over time cannot tell anything about them.
    """
    from dynamask_mlflow.metrics import auprc, auroc

    cells = truth.salient_cells(stays)
    deaths = (stays.labels == 1) & cells.any(axis=(1, 2))
    foreseen = np.flatnonzero(deaths & (model.predict(stays.x, "label") == 1))
    if not len(foreseen):
        return TruthFound(int(deaths.sum()), 0, 0, 0.0, {}, 0.0)
    chosen = foreseen[:limit]
    x, planted = stays.x[chosen], cells[chosen]
    varying = np.broadcast_to(~np.isin(stays.channel_names, STATIC), planted.shape)
    scores: dict[str, dict[str, float]] = {}
    ranked: dict[str, NDArray[np.float64]] = {}
    for name, method in METHODS.items():
        ordering = model.explain(x, method=method, progress=False).scores
        ranked[name] = np.asarray(auroc(ordering, planted, varying))
        scores[name] = {
            "auroc": float(np.nanmean(ranked[name])),
            "auprc": float(np.nanmean(auprc(ordering, planted, varying))),
        }
    wins = float(np.mean(ranked["dynamask"] > ranked["integrated_gradients"]))
    return TruthFound(int(deaths.sum()), len(foreseen), len(chosen), float(planted.mean()), scores, wins)
