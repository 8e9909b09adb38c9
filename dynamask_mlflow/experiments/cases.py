"""What each experiment draws for a seed: a model, held-out sequences, and their salient cells."""

from __future__ import annotations

import numpy as np
import torch

from dynamask_mlflow.experiments.models import Family
from dynamask_mlflow.experiments.motif import MotifSetting, make_motif
from dynamask_mlflow.experiments.motif_models import (
    MotifTraining,
    motif_accuracy,
    motif_test_data,
    train_motif_model,
)
from dynamask_mlflow.experiments.protocol import Case
from dynamask_mlflow.experiments.rare import Kind, RareSetting, arma_series, make_rare
from dynamask_mlflow.experiments.state import StateSetting, held_out_accuracy, make_state, train_state_model
from dynamask_mlflow.experiments.training import Training

QUICK_STATE = StateSetting(
    series=400, train=300, hidden=64, training=Training(epochs=20, learning_rate=5e-3, batch_size=50)
)
QUICK_MOTIF = MotifTraining(hidden=32, stop_at=0.97)


def rare_case(kind: Kind, seed: int, instances: int, quick: bool) -> Case:
    """Series that share one white box, and others of the same process as background."""
    setting = RareSetting(kind=kind)
    data = make_rare(setting, seed=seed, instances=instances)
    truth = np.broadcast_to(data.truth, data.x.shape)
    rng = np.random.default_rng([seed, 5])
    seen = arma_series(rng, 20 if quick else 200, setting.steps, setting.channels, setting.coefficients)
    return Case(model=data.model, x=data.x, truth=truth, task="regression", background=seen)


def state_case(seed: int, instances: int, quick: bool, setting: StateSetting | None = None) -> Case:
    """Held-out series of the hidden Markov chain, and a GRU trained on the others."""
    setting = setting or (QUICK_STATE if quick else StateSetting())
    held_out = setting.series - setting.train
    if instances > held_out:
        raise ValueError(f"Expected at most {held_out} instances, the held-out series, but got {instances}.")
    data = make_state(setting, seed=seed)
    model = train_state_model(data, setting, seed=seed)
    part = data.rows(slice(setting.train, setting.train + instances))
    facts = {"accuracy": held_out_accuracy(model, data, setting)}
    seen = data.x[: setting.train]
    return Case(model=model, x=part.x, truth=part.truth, task="classification", facts=facts, background=seen)


def motif_case(setting: MotifSetting, family: Family, seed: int, instances: int, quick: bool) -> Case:
    """Held-out sequences that hold the motif and whose class the model gets right."""
    model = train_motif_model(setting, family, seed=seed, training=QUICK_MOTIF if quick else None)
    data = motif_test_data(setting, seed=seed)
    with torch.no_grad():
        found = model(torch.from_numpy(data.x)).argmax(-1).numpy() == 1
    rows = np.flatnonzero((data.y == 1) & found)
    if len(rows) < instances:
        raise ValueError(f"Expected {instances} motifs that the model finds, but there are {len(rows)}.")
    part = data.rows(rows[:instances])
    facts = {"accuracy": motif_accuracy(model, data)}
    seen = make_motif(setting, seed=seed, n=500).x
    return Case(model=model, x=part.x, truth=part.truth, task="classification", facts=facts, background=seen)
