"""Mortality models on the synthetic hospital, for the experiment on changes."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.experiments.cache import cached_model
from dynamask_mlflow.experiments.mimic import train_on
from dynamask_mlflow.experiments.models import build_model
from dynamask_mlflow.experiments.training import seeded, shuffled_batches
from dynamask_mlflow.training.model import GRUClassifier

# Name in the table -> whether it answers at each step.
ARCHITECTURES = {"GRU": False, "Transformer": False, "GRU at each step": True}
_HIDDEN = 48
_LEARNING_RATE = 1e-3
_BATCH = 64
_EPOCHS, _QUICK_EPOCHS, _PATIENCE = 25, 2, 4
# Channels dropped for a whole stay in training, as in the other hospital models: none may be learnt by heart.
_CHANNEL_DROPOUT = 0.2


class ReadAtEachStep(nn.Module):
    """A GRU that was trained to answer at the end, read at every step: (B, T, d) to (B, T, classes)."""

    def __init__(self, trained: GRUClassifier) -> None:
        super().__init__()
        self.gru, self.readout = trained.gru, trained.readout

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.readout(self.gru(x)[0])
        return logits


def change_model(name: str, stays: StayDataset, seed: int, quick: bool) -> nn.Module:
    """The model of that architecture, trained on these stays from the seed once and kept."""
    if name != "Transformer":
        trained = train_on(stays, seed, quick)
        return ReadAtEachStep(trained) if ARCHITECTURES[name] else trained
    train, validation = (_known(stays.part(split)) for split in ("train", "validation"))
    channels = stays.x.shape[2]
    epochs = _QUICK_EPOCHS if quick else _EPOCHS
    settings = {"data": stays.part("train").digest, "hidden": _HIDDEN, "epochs": epochs, "seed": seed}

    def build() -> nn.Module:
        with seeded(seed):
            return build_model("transformer", channels, hidden=_HIDDEN)

    def learn(model: nn.Module) -> None:
        _train(model, train, validation, epochs, seed)

    return cached_model("change", settings, build, learn)


def _known(part: StayDataset) -> tuple[Tensor, Tensor]:
    known = part.select(~np.isnan(part.labels))
    return torch.from_numpy(known.x), torch.from_numpy(known.labels).long()


def _train(
    model: nn.Module, train: tuple[Tensor, Tensor], validation: tuple[Tensor, Tensor], epochs: int, seed: int
) -> None:
    """Cross-entropy and Adam, back to the epoch of the best validation loss."""
    optimiser = torch.optim.Adam(model.parameters(), lr=_LEARNING_RATE)
    best, kept, since = float("inf"), copy.deepcopy(model.state_dict()), 0
    with seeded(seed + 1):
        for _ in range(epochs):
            model.train()
            for rows in shuffled_batches(len(train[0]), _BATCH):
                x, y = train[0][rows], train[1][rows]
                x = x * (torch.rand(len(x), 1, x.shape[2]) >= _CHANNEL_DROPOUT)
                loss = nn.functional.cross_entropy(model(x), y)
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                optimiser.step()
            model.eval()
            with torch.no_grad():
                now = float(nn.functional.cross_entropy(model(validation[0]), validation[1]))
            since = 0 if now < best else since + 1
            if now < best:
                best, kept = now, copy.deepcopy(model.state_dict())
            if since >= _PATIENCE:
                break
    model.load_state_dict(kept)
