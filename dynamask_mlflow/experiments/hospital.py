"""The synthetic hospital: deaths that a model foresaw, and the cells in which they were planted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from dynamask_mlflow import metrics as m
from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.data.hospital.truth import Truth, load_truth
from dynamask_mlflow.experiments.cache import cache_folder
from dynamask_mlflow.experiments.mimic import train_on
from dynamask_mlflow.experiments.protocol import Case, Experiment
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.training.loop import predict
from dynamask_mlflow.training.scores import auroc

COLUMNS: Mapping[str, str] = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "precision": "precision",
    "recall": "recall",
    "area": "area",
    "model_auroc": "model AUROC",
}


def hospital_experiment() -> Experiment:
    return Experiment(
        name="hospital",
        title="Planted deterioration: deaths in a synthetic hospital that a GRU foresaw, a hospital for each seed",
        make_case=hospital_case,
        score=planted_scores,
        columns=COLUMNS,
        seeds=3,
        instances=40,
        quick_seeds=1,
        quick_instances=4,
        default_methods=("nested", "ig", "ig_smooth", "random"),
    )


def hospital_case(seed: int, instances: int, quick: bool) -> Case:
    """Test stays that ended in death, hold a planted deterioration, and were foreseen by a GRU of this hospital."""
    stays, truth = _hospital(seed, quick)
    test = stays.part("test")
    model = train_on(stays, seed, quick)
    risk = predict(model, test.x)
    cells = truth.salient_cells(test)
    planted = np.flatnonzero((test.labels == 1) & cells.any(axis=(1, 2)))
    # A quick model is too small to be sure of anything: there the deaths it fears most are taken.
    foreseen = planted[np.argsort(-risk[planted], kind="stable")] if quick else planted[risk[planted] > 0.5]
    if not len(foreseen):
        raise ValueError(f"Expected deaths that the model foresaw, but of {len(planted)} there is none.")
    rows = foreseen[:instances]
    known = ~np.isnan(test.labels)
    return Case(
        model=model,
        x=test.x[rows],
        truth=cells[rows],
        task="classification",
        facts={"model_auroc": auroc(risk[known], test.labels[known]), "stays": float(len(rows))},
        background=stays.part("train").x[:2000],
        channel_names=stays.channel_names,
    )


def planted_scores(case: Case, masks: Masks) -> Mapping[str, float]:
    """How well the planted cells are ranked and lit, among channels that change: time tells nothing of the others."""
    if case.truth is None:
        raise ValueError("Expected a case whose salient cells are known, but it has none.")
    varying = np.broadcast_to(np.ptp(case.x, axis=1, keepdims=True) > 0, case.x.shape) | case.truth
    lit = (masks.masks >= 0.5) & varying
    hits = (lit & case.truth).sum(axis=(1, 2))
    values = {
        "auroc": m.auroc(masks.scores, case.truth, varying),
        "auprc": m.auprc(masks.scores, case.truth, varying),
        "precision": hits / np.maximum(lit.sum(axis=(1, 2)), 1),
        "recall": hits / np.maximum(case.truth.sum(axis=(1, 2)), 1),
        "area": masks.area,
    }
    return {name: float(np.nanmean(value)) for name, value in values.items()}


@lru_cache(maxsize=1)
def _hospital(seed: int, quick: bool) -> tuple[StayDataset, Truth]:
    """Built once and kept: these stays are nobody's."""
    from dynamask_mlflow.data import BuildConfig, build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize

    stays = 300 if quick else 4000
    root = cache_folder() / "hospital"
    tables, target = root / f"tables-{stays}-{seed}", root / f"stays-{stays}-{seed}"
    if not target.exists():
        synthesize(tables, HospitalConfig(stays=stays, seed=seed), overwrite=True)
        build(open_source("synthetic", str(tables)), BuildConfig(threads=1)).save(target)
    return StayDataset.load(target), load_truth(tables)
