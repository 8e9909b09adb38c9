"""How much of the planted truth each method finds, on every test stay that has any, by predicted risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dynamask_mlflow.data import StayDataset
    from dynamask_mlflow.data.hospital import Truth
    from dynamask_mlflow.evaluation.sequence_model import SequenceModel
    from dynamask_mlflow.masks.result import Masks

METHODS = {
    "dynamask": "nested",
    "integrated_gradients": "ig",
    "integrated_gradients_smoothed": "ig_smooth",
    "random": "random",
}

Scores = Mapping[str, float]
"""auroc, auprc, precision and recall, means over stays."""


@dataclass(frozen=True)
class Band:
    """Scores of the methods on stays of one band of predicted risk.

    Attributes:
        stays: how many there are.
        scores: method to its scores.
    """

    stays: int
    scores: Mapping[str, Scores]


@dataclass(frozen=True)
class TruthFound:
    """How well each method finds the planted cells of the same stays.

    Attributes:
        test_stays: all stays of the test split. stays: those with planted cells, all of which are compared.
        planted: mean share of their cells that is planted.
        overall: scores over all of them. bands: name to those of that predicted risk, where there are any.
        wins: other method to the share of the stays on which the default method has the higher AUPRC.
    """

    test_stays: int
    stays: int
    planted: float
    overall: Band
    bands: Mapping[str, Band]
    wins: Mapping[str, float]


def find_truth(model: SequenceModel, stays: StayDataset, truth: Truth) -> TruthFound:
    """Explain the stays that hold a planted deterioration, whatever their outcome, and compare with its cells.

    A deterioration is a change within the stay, so each stay is explained against its own course, also where the
    model was logged with a reference set. Channels that never change in a stay take no part. Filled-in cells do: a
    value is evidence for as long as it is carried on, and the planted cells count it so.
    """
    from dynamask_mlflow.experiments.hospital import BANDS
    from dynamask_mlflow.masks.explain import explain

    planted = truth.salient_cells(stays)
    rows = np.flatnonzero(planted.any(axis=(1, 2)))
    if not len(rows):
        return TruthFound(len(stays), 0, 0.0, Band(0, {}), {}, {})
    x, cells = stays.x[rows], planted[rows]
    counted = (np.ptp(x, axis=1, keepdims=True) > 0) | cells
    risk = model.predict(x, "probability")[:, 1]
    found: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, method in METHODS.items():
        config = model.settings.config(device=model.device, method=method, progress=False)
        masks = explain(model.network, x, task=model.settings.task, config=config)
        found[name] = _by_stay(masks, cells, counted)
    inside = {name: (risk >= low) & ((risk < high) | (high == 1)) for name, (low, high) in BANDS.items()}
    ours = found["dynamask"]["auprc"]
    return TruthFound(
        test_stays=len(stays),
        stays=len(rows),
        planted=float(cells.mean()),
        overall=_means(found, np.ones(len(rows), dtype=np.bool_)),
        bands={name: _means(found, chosen) for name, chosen in inside.items() if chosen.any()},
        wins={name: float(np.mean(ours > values["auprc"])) for name, values in found.items() if name != "dynamask"},
    )


def _by_stay(masks: Masks, cells: NDArray[np.bool_], counted: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
    """Of each stay how well the scores rank the planted cells, and how well the mask of whole cells marks them."""
    from dynamask_mlflow.metrics import auprc, auroc

    marked = masks.binary & counted
    hits = (marked & cells).sum(axis=(1, 2))
    return {
        "auroc": np.asarray(auroc(masks.scores, cells, counted)),
        "auprc": np.asarray(auprc(masks.scores, cells, counted)),
        "precision": hits / np.maximum(marked.sum(axis=(1, 2)), 1),
        "recall": hits / cells.sum(axis=(1, 2)),
    }


def _means(found: Mapping[str, Mapping[str, NDArray[np.float64]]], chosen: NDArray[np.bool_]) -> Band:
    scores = {
        method: {name: float(np.nanmean(values[chosen])) for name, values in by_stay.items()}
        for method, by_stay in found.items()
    }
    return Band(int(chosen.sum()), scores)
