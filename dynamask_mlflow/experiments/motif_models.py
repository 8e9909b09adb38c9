"""Classifiers of four families for the motif, trained in a minute or two on one thread.

Two things make that possible: fresh sequences in every epoch with a motif that starts twice as strong, and a
second loss that tells at every step whether the motif is there. The models still read a whole sequence and
answer once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow.experiments.cache import cached_model
from dynamask_mlflow.experiments.models import FAMILIES, Family, SequenceModel, build_model
from dynamask_mlflow.experiments.motif import MotifData, MotifSetting, make_motif
from dynamask_mlflow.experiments.training import accuracy, seeded, shuffled_batches

_VALIDATION = 1_000_000
_TEST = 1_000_001


@dataclass(frozen=True, kw_only=True)
class MotifTraining:
    """How a motif classifier is trained.

    Attributes:
        sequences: drawn afresh in every epoch.
        stop_at: accuracy on a validation part that ends the training, once the motif has its final strength.
    """

    epochs: int = 40
    sequences: int = 1000
    batch_size: int = 50
    learning_rate: float = 5e-3
    hidden: int = 64
    stop_at: float = 0.985


def motif_test_data(setting: MotifSetting, *, seed: int, n: int = 400) -> MotifData:
    """Sequences that no training of this seed has seen."""
    return make_motif(setting, seed=seed, n=n, part=_TEST)


def motif_accuracy(model: nn.Module, data: MotifData) -> float:
    return accuracy(model, torch.from_numpy(data.x), torch.from_numpy(data.y))


def train_motif_model(
    setting: MotifSetting, family: Family, *, seed: int, training: MotifTraining | None = None
) -> SequenceModel:
    """A classifier with logits (B, 2). Cached. Measure it with `motif_accuracy` on `motif_test_data`."""
    training = training or MotifTraining()
    if family not in FAMILIES:
        raise ValueError(f"Expected a family of {', '.join(FAMILIES)}, but got {family!r}.")
    settings = {"setting": asdict(setting), "training": asdict(training), "family": family, "seed": seed}

    def build() -> SequenceModel:
        with seeded(seed):
            return build_model(family, setting.channels, 2, training.hidden)

    return cached_model("motif", settings, build, lambda model: _train(model, setting, training, seed))


def _train(model: SequenceModel, setting: MotifSetting, training: MotifTraining, seed: int) -> None:
    batches = -(-training.sequences // training.batch_size)
    optimiser = torch.optim.Adam(model.parameters(), lr=training.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, training.learning_rate, total_steps=batches * training.epochs
    )
    validation = make_motif(setting, seed=seed, n=training.sequences, part=_VALIDATION)
    easy = max(1, training.epochs // 3)
    with seeded(seed):
        for epoch in range(training.epochs):
            lead = 1 + max(0.0, 1 - epoch / easy)
            data = make_motif(setting, seed=seed, n=training.sequences, part=epoch, strength=lead * setting.strength)
            model.train()
            _epoch(model, data, optimiser, schedule, training.batch_size, setting.length)
            if epoch >= easy and motif_accuracy(model, validation) >= training.stop_at:
                break
    model.eval()


def _epoch(
    model: SequenceModel,
    data: MotifData,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    batch_size: int,
    length: int,
) -> None:
    x, y, present = torch.from_numpy(data.x), torch.from_numpy(data.y), _present(data, length)
    for rows in shuffled_batches(len(x), batch_size):
        states = model.states(x[rows])
        answer, steps = model.head(model.summary(states)), model.head(states)
        loss = nn.functional.cross_entropy(answer, y[rows])
        loss = loss + nn.functional.cross_entropy(steps.flatten(0, 1), present[rows].flatten())
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()


def _present(data: MotifData, length: int) -> Tensor:
    """(N, T) labels: 1 from the step at which the motif is complete."""
    seen = data.truth.any(axis=-1).cumsum(axis=1) >= length
    return torch.from_numpy(seen.astype(np.int64))
