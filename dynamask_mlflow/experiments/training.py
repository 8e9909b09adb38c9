"""The training loop of the state experiment, and what every training needs: a seed, an accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a classifier is trained; the defaults are the paper's."""

    epochs: int = 80
    learning_rate: float = 1e-3
    batch_size: int = 100

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0:
            raise ValueError(f"Expected epochs, batch_size and learning_rate above 0, but got {self}.")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run with torch's CPU generator at `seed`, and put its state back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def accuracy(model: nn.Module, x: Tensor, y: Tensor, batch_size: int = 500) -> float:
    """Share of right classes; outputs at every step count each."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        parts = [model(x[start : start + batch_size]).argmax(-1) for start in range(0, len(x), batch_size)]
    model.train(was_training)
    return float((torch.cat(parts) == y).float().mean())


def shuffled_batches(n: int, batch_size: int) -> Iterator[Tensor]:
    """Row numbers of one epoch."""
    order = torch.randperm(n)
    for start in range(0, n, batch_size):
        yield order[start : start + batch_size]


def train_classifier(model: nn.Module, x: Tensor, y: Tensor, training: Training, seed: int) -> None:
    """Minimise the cross-entropy of logits (B, C) or (B, T, C) to labels (B,) or (B, T), with Adam."""
    if len(x) != len(y):
        raise ValueError(f"Expected as many labels as sequences, but got {len(y)} and {len(x)}.")
    optimiser = torch.optim.Adam(model.parameters(), lr=training.learning_rate)
    model.train()
    with seeded(seed):
        for _ in range(training.epochs):
            for rows in shuffled_batches(len(x), training.batch_size):
                logits = model(x[rows])
                loss = nn.functional.cross_entropy(logits.flatten(0, -2), y[rows].flatten())
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                optimiser.step()
    model.eval()
