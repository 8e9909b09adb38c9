"""The trained models of the arena: quick to train, kept in the cache.

Three things make the training quick: fresh sequences in every epoch, evidence that starts stronger than it ends, and
for recurrent models a second loss at every step, on what a reader knows by then. The head of that loss is thrown away.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow.experiments.arena.data import VALIDATION, Part, shared_stream
from dynamask_mlflow.experiments.arena.tasks import ArenaTraining, Task
from dynamask_mlflow.experiments.cache import cached_model
from dynamask_mlflow.experiments.models import RecurrentModel, SequenceModel, build_model
from dynamask_mlflow.experiments.training import seeded, shuffled_batches

RECURRENT = ("gru", "lstm")
LEAST = 0.96
"""Validation accuracy below which a classifier is trained again from other weights."""
ATTEMPTS = 3


class AttentionModel(SequenceModel):
    """A convolution over time and attention pooling over the steps that exist, told from x alone.

    Args:
        presence: the last channel tells which steps exist. Without it a step of zeros is padding, and a sequence of
            zeros has no answer: NaN, as it is with key_padding_mask = (x == 0).all(-1) in many models.
    """

    def __init__(self, channels: int, hidden: int, outputs: int, presence: bool) -> None:
        super().__init__(hidden, outputs, per_step=False)
        self.body = nn.Sequential(
            nn.Conv1d(channels, hidden, 5, padding=2), nn.ReLU(), nn.Conv1d(hidden, hidden, 5, padding=2), nn.ReLU()
        )
        self.attention = nn.Linear(hidden, 1)
        self.presence = presence

    def states(self, x: Tensor) -> Tensor:
        states: Tensor = self.body(x.transpose(1, 2)).transpose(1, 2)
        return states

    def forward(self, x: Tensor) -> Tensor:
        states = self.states(x)
        exists = x[..., -1:] > 0.5 if self.presence else (x != 0).any(-1, keepdim=True)
        weights = self.attention(states).masked_fill(~exists, -torch.inf if not self.presence else -30.0).softmax(1)
        out: Tensor = self.head((weights * states).sum(1))
        return out


class OneLogit(nn.Module):
    """A model of one output a sequence as (B,) instead of (B, 1)."""

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.model(x)[:, 0]
        return out


def arena_model(task: Task, architecture: str, seed: int) -> nn.Module:
    """The model of a task for a seed: a white box, or a network trained and cached."""
    if architecture in task.white_boxes:
        return task.white_boxes[architecture](shared_stream(task.name, seed)).eval()
    training = fitted_training(task, architecture)
    channels = task.part(seed=seed, n=8).x.shape[2]
    settings = {
        "task": task.name,
        "version": task.version,
        "architecture": architecture,
        "training": asdict(training),
        "seed": seed,
    }

    def build() -> nn.Module:
        with seeded(seed):
            return _build(task, architecture, channels, training)

    return cached_model("arena", settings, build, lambda model: _train(model, task, architecture, training, seed))


def fitted_training(task: Task, architecture: str) -> ArenaTraining:
    """The task's training, with the rate and width that suit the architecture."""
    training = task.training
    if architecture in RECURRENT:
        return replace(task.recurrent or training, pooling="mean")
    if architecture == "transformer":
        return replace(training, learning_rate=2e-3, pooling="mean")
    return replace(training, learning_rate=3e-3, hidden=min(training.hidden, 32))


def _build(task: Task, architecture: str, channels: int, training: ArenaTraining) -> nn.Module:
    outputs = task.classes if task.answer.startswith("class") else 1
    if architecture == "attention":
        return AttentionModel(channels, training.hidden, outputs, presence=task.name == "lengths")
    per_step = task.answer == "classes at every step"
    model = build_model(architecture, channels, outputs, training.hidden, per_step, training.pooling)
    if isinstance(model, RecurrentModel):
        with torch.no_grad():
            model.recurrent.get_parameter("weight_ih_l0").mul_(training.input_scale)
    return OneLogit(model) if outputs == 1 else model


def _train(model: nn.Module, task: Task, architecture: str, training: ArenaTraining, seed: int) -> None:
    for attempt in range(ATTEMPTS):
        start = seed + 1_000 * attempt
        if attempt:
            with seeded(start):
                fresh = _build(task, architecture, task.part(seed=seed, n=8).x.shape[2], training)
            model.load_state_dict(fresh.state_dict())
        reached = _train_once(model, task, architecture, training, seed, start)
        if reached >= LEAST or not task.answer.startswith("class"):
            return


def _train_once(
    model: nn.Module, task: Task, architecture: str, training: ArenaTraining, seed: int, start: int
) -> float:
    """Train, with torch's generator from `start`; returns the quality on the validation part."""
    validation = task.part(seed=seed, n=500 if training.sequences >= 500 else 100, part=VALIDATION)
    easy = max(1, training.epochs // 3)
    batches = -(-training.sequences // training.batch_size)
    with seeded(start):
        helped = architecture in RECURRENT and validation.running is not None
        helper = nn.Linear(training.hidden, 64) if helped else None
        weights = [*model.parameters(), *(helper.parameters() if helper else ())]
        optimiser = torch.optim.Adam(weights, lr=training.learning_rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, training.learning_rate, total_steps=batches * training.epochs
        )
        for epoch in range(training.epochs):
            lead = 1 + (training.lead - 1) * max(0.0, 1 - epoch / easy)
            part = task.part(seed=seed, n=training.sequences, part=epoch, strength=lead)
            model.train()
            for rows in shuffled_batches(len(part), training.batch_size):
                loss = _loss(model, task, part.rows(rows.numpy()), helper)
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                nn.utils.clip_grad_norm_(weights, 1.0)
                optimiser.step()
                schedule.step()
            if epoch >= easy and quality(model, task, validation) >= training.stop_at:
                break
    model.eval()
    return quality(model, task, validation)


def _loss(model: nn.Module, task: Task, part: Part, helper: nn.Linear | None) -> Tensor:
    x, y = torch.from_numpy(part.x), torch.from_numpy(part.y)
    if helper is None or not isinstance(model, SequenceModel) or part.running is None:
        return _answer_loss(task, model(x), y)
    states = model.states(x)
    known = nn.functional.cross_entropy(helper(states).flatten(0, 1), torch.from_numpy(part.running).flatten())
    return _answer_loss(task, model.head(model.summary(states)), y) + known


def _answer_loss(task: Task, answer: Tensor, y: Tensor) -> Tensor:
    if task.answer == "value":
        return nn.functional.mse_loss(answer, y)
    if task.answer == "risk":
        return nn.functional.binary_cross_entropy_with_logits(answer, y)
    return nn.functional.cross_entropy(answer.flatten(0, -2), y.flatten())


def predictions(model: nn.Module, x: np.ndarray[Any, Any], batch_size: int = 100) -> np.ndarray[Any, Any]:
    """The model's outputs, in evaluation mode."""
    model.eval()
    with torch.no_grad():
        parts = [model(torch.from_numpy(x[start : start + batch_size])) for start in range(0, len(x), batch_size)]
    return np.asarray(torch.cat(parts).numpy())


def quality(model: nn.Module, task: Task, part: Part) -> float:
    """Accuracy; for values R^2; for a risk R^2 of its logit, of which the noise leaves about .95."""
    out = predictions(model, part.x)
    if task.answer.startswith("class"):
        return float((out.argmax(-1) == part.y).mean())
    y = part.y if task.answer == "value" else np.log(part.y / (1 - part.y))
    return float(1 - np.square(out - y).sum() / np.square(y - y.mean()).sum())
