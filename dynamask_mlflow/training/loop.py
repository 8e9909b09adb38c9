"""The training loop: cross-entropy, Adam, and back to the epoch with the best validation loss."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.training.config import TrainConfig
from dynamask_mlflow.training.model import GRUClassifier
from dynamask_mlflow.training.scores import auroc

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training stays came to."""

    epoch: int
    train_loss: float
    validation_loss: float
    validation_auroc: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained network and how it got there."""

    model: GRUClassifier
    history: tuple[Epoch, ...]
    best: Epoch


def fit(
    train: tuple[FloatArray, FloatArray],
    validation: tuple[FloatArray, FloatArray],
    config: TrainConfig | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Fit:
    """Train on (x, labels), stopping early on another (x, labels). Repeatable.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(40, 5, 2)).astype(np.float32)
        >>> y = (x[:, -1, 0] > 0).astype(np.float32)
        >>> fitted = fit((x, y), (x, y), TrainConfig(units=4, epochs=2))
        >>> len(fitted.history)
        2
    """
    config = config or TrainConfig()
    for name, (x, y) in (("training", train), ("validation", validation)):
        _check(name, x, y)
    threads = torch.get_num_threads()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            return _fit(train, validation, config, on_epoch)
    finally:
        torch.set_num_threads(threads)


def _fit(
    train: tuple[FloatArray, FloatArray],
    validation: tuple[FloatArray, FloatArray],
    config: TrainConfig,
    on_epoch: Callable[[Epoch], None] | None,
) -> Fit:
    x, y = torch.from_numpy(train[0]), torch.from_numpy(train[1]).long()
    model = GRUClassifier(x.shape[2], config.units, dropout=config.dropout, channel_dropout=config.channel_dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    loss = nn.CrossEntropyLoss()
    history: list[Epoch] = []
    best_state = copy.deepcopy(model.state_dict())
    for number in range(config.epochs):
        started = time.perf_counter()
        model.train()
        total = 0.0
        for batch in torch.split(torch.randperm(len(x)), config.batch_size):
            optimizer.zero_grad()
            step: Tensor = loss(model(x[batch]), y[batch])
            step.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(step.detach()) * len(batch)
        probabilities = predict(model, validation[0])
        epoch = Epoch(
            epoch=number,
            train_loss=total / len(x),
            validation_loss=log_loss(probabilities, validation[1]),
            validation_auroc=auroc(probabilities, validation[1]),
            seconds=time.perf_counter() - started,
        )
        history.append(epoch)
        best = min(history, key=lambda e: e.validation_loss)
        if best is epoch:
            best_state = copy.deepcopy(model.state_dict())
        if on_epoch is not None:
            on_epoch(epoch)
        if number - best.epoch >= config.patience:
            break
    model.load_state_dict(best_state)
    model.eval()
    return Fit(model, tuple(history), best)


def predict(model: nn.Module, x: FloatArray, batch_size: int = 512) -> NDArray[np.float64]:
    """The probability of class 1 of each sequence, in evaluation mode.

    Example:
        >>> from dynamask_mlflow.training import GRUClassifier
        >>> predict(GRUClassifier(2, 4), np.zeros((3, 5, 2), dtype=np.float32)).shape
        (3,)
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            parts = [
                model(torch.from_numpy(np.ascontiguousarray(x[start : start + batch_size]))).softmax(-1)[:, 1]
                for start in range(0, len(x), batch_size)
            ]
    finally:
        model.train(was_training)
    return torch.cat(parts).double().numpy()


def log_loss(probabilities: NDArray[np.float64], labels: FloatArray) -> float:
    """-mean(y ln p + (1 - y) ln(1 - p))."""
    p = np.clip(probabilities, 1e-7, 1 - 1e-7)
    return float(-np.mean(np.where(labels == 1, np.log(p), np.log(1 - p))))


def _check(name: str, x: FloatArray, y: FloatArray) -> None:
    if x.ndim != 3 or len(x) != len(y):
        raise ValueError(f"Expected {name} sequences (N, T, d) and N labels, but got {x.shape} and {len(y)}.")
    found = np.unique(y)
    if not np.array_equal(found, [0, 1]):
        raise ValueError(f"Expected both labels 0 and 1 in the {name} stays, but got {found.tolist()[:5]}.")
