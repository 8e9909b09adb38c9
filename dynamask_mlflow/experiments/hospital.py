"""The synthetic hospital: stays with a planted deterioration, by predicted risk, and the planted cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics as m
from dynamask_mlflow.experiments.hospital_data import hospital_stays
from dynamask_mlflow.experiments.mimic import train_on
from dynamask_mlflow.experiments.protocol import Case, Experiment
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.training.loop import predict
from dynamask_mlflow.training.scores import auroc

BANDS: Mapping[str, tuple[float, float]] = {
    ".02-.1": (0.02, 0.1),
    ".1-.3": (0.1, 0.3),
    ".3-.5": (0.3, 0.5),
    ".5-.8": (0.5, 0.8),
    ".8-1": (0.8, 1.0),
}
"""Bands of predicted risk, from and up to."""
COLUMNS: Mapping[str, str] = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "precision": "precision",
    "recall": "recall",
    "area": "area",
    **{f"auroc/{band}": f"AUROC {band}" for band in BANDS},
    **{f"auprc/{band}": f"AUPRC {band}" for band in BANDS},
    **{f"precision/{band}": f"precision {band}" for band in BANDS},
    **{f"recall/{band}": f"recall {band}" for band in BANDS},
    "model_auroc": "model AUROC",
}


def hospital_experiment() -> Experiment:
    return Experiment(
        name="hospital",
        title="Planted deterioration: stays by predicted risk, a synthetic hospital and a GRU for each seed",
        make_case=hospital_case,
        score=planted_scores,
        columns=COLUMNS,
        seeds=3,
        instances=40,
        quick_seeds=1,
        quick_instances=4,
        default_methods=("nested", "ig", "ig_smooth", "random"),
    )


def hospital_case(seed: int, instances: int, quick: bool, band: str | None = None) -> Case:
    """Test stays that hold a planted deterioration, whatever their outcome, up to `instances` in each band of risk.

    Args:
        band: take this one alone, a key of BANDS.
    """
    stays, truth = hospital_stays(seed, quick)
    test = stays.part("test")
    model = train_on(stays, seed, quick)
    risk = predict(model, test.x)
    cells = truth.salient_cells(test)
    planted = np.flatnonzero(cells.any(axis=(1, 2)))
    if quick:
        # A quick model is too small to be sure of anything: its highest risks are taken, whatever the band.
        rows = planted[np.argsort(-risk[planted], kind="stable")][:instances]
    else:
        chosen = BANDS if band is None else {band: BANDS[band]}
        rows = np.concatenate([planted[_within(risk[planted], limits)][:instances] for limits in chosen.values()])
    if not len(rows):
        raise ValueError(f"Expected planted stays of such a risk, but of {len(planted)} there is none.")
    known = ~np.isnan(test.labels)
    return Case(
        model=model,
        x=test.x[rows],
        truth=cells[rows],
        task="classification",
        facts={"model_auroc": auroc(risk[known], test.labels[known]), "stays": float(len(rows))},
        background=stays.part("train").x[:2000],
        channel_names=stays.channel_names,
        counted=_varying(test.x[rows]) | cells[rows],
    )


def planted_scores(case: Case, masks: Masks) -> Mapping[str, float]:
    """How well the planted cells are ranked and marked, over all stays and by band of predicted risk.

    Channels that never change in a stay take no part: their cells cannot be told apart.
    """
    if case.truth is None:
        raise ValueError("Expected a case whose salient cells are known, but it has none.")
    counted = np.ones(case.x.shape, dtype=np.bool_) if case.counted is None else case.counted
    marked = masks.binary & counted
    hits = (marked & case.truth).sum(axis=(1, 2))
    values = {
        "auroc": m.auroc(masks.scores, case.truth, counted),
        "auprc": m.auprc(masks.scores, case.truth, counted),
        "precision": hits / np.maximum(marked.sum(axis=(1, 2)), 1),
        "recall": hits / np.maximum(case.truth.sum(axis=(1, 2)), 1),
        "area": np.asarray(masks.area),
    }
    found = {name: float(np.nanmean(value)) for name, value in values.items()}
    risk = predict(case.model, case.x)
    for band, limits in BANDS.items():
        inside = _within(risk, limits)
        if inside.any():
            found |= {f"{name}/{band}": float(np.nanmean(value[inside])) for name, value in values.items()}
            found[f"stays/{band}"] = float(inside.sum())
    return found


def _within(risk: NDArray[Any], limits: tuple[float, float]) -> NDArray[np.bool_]:
    return np.asarray((risk >= limits[0]) & (risk < limits[1]))


def _varying(x: NDArray[np.float32]) -> NDArray[np.bool_]:
    return np.broadcast_to(np.ptp(x, axis=1, keepdims=True) > 0, x.shape)
