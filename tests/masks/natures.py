"""Tasks of known truth, one for each nature of evidence, with models that are trained in a second or two.

A nature is a model, sequences that it classifies correctly, and the cells in which their evidence was planted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.random import Generator
from torch import Tensor, nn

from dynamask_mlflow import Masks, explain
from dynamask_mlflow.metrics import auprc, entropy
from dynamask_mlflow.metrics import rank_correlation as spearman

SHOWN = 12
POOL = 1500

Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]
"""x (N, T, d), labels, and the planted cells (N, T, d)."""
Draw = Callable[[Generator, int], Drawn]


@dataclass(frozen=True, eq=False)
class Nature:
    """What `explain` is asked, and the answer."""

    model: Any
    x: Tensor
    truth: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)

    def explained(self, **options: Any) -> Masks:
        return explain(self.model, self.x, progress=False, **{**self.options, **options})


@dataclass(frozen=True)
class Quality:
    """How well masks find the planted cells.

    Attributes:
        ranking: mean AUPRC of the scores.
        cells: mean F1 of the mask of whole cells.
        brier: mean over instances of sum (coefficient - truth)^2 over the number of planted cells.
    """

    ranking: float
    cells: float
    brier: float


def f1(masks: Masks, truth: np.ndarray) -> np.ndarray:
    hits = (masks.binary & truth).sum((1, 2))
    return np.asarray(2 * hits / np.maximum(masks.binary.sum((1, 2)) + truth.sum((1, 2)), 1))


def doubt(masks: Masks) -> np.ndarray:
    """(N,): entropy over the sum of the coefficients."""
    return np.asarray(entropy(masks.masks) / np.maximum(masks.masks.sum((1, 2)), 1e-12))


def quality(masks: Masks, truth: np.ndarray) -> Quality:
    squares = np.square(masks.masks - truth).sum((1, 2)) / truth.sum((1, 2))
    return Quality(float(auprc(masks.scores, truth).mean()), float(f1(masks, truth).mean()), float(squares.mean()))


class Filters(nn.Module):
    """Two convolutions over time, and their greatest or mean response."""

    def __init__(self, channels: int, outputs: int, width: int = 5, *, greatest: bool = True) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, 16, width, padding=width // 2),
            nn.ReLU(),
            nn.Conv1d(16, 16, width, padding=width // 2),
            nn.ReLU(),
        )
        self.head = nn.Linear(16, outputs)
        self.greatest = greatest

    def forward(self, x: Tensor) -> Tensor:
        states = self.body(x.transpose(1, 2))
        return self.head(states.amax(2) if self.greatest else states.mean(2))


class Memory(nn.Module):
    """An LSTM that answers from its last state, or a GRU that answers from the mean of its states, one logit (B,)."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        kind = nn.GRU if outputs == 1 else nn.LSTM
        self.recurrent = kind(channels, 24, batch_first=True)
        self.head = nn.Linear(24, outputs)
        self.one_logit = outputs == 1

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.recurrent(x)
        return self.head(states.mean(1))[:, 0] if self.one_logit else self.head(states[:, -1])


def noise(rng: Generator, n: int, steps: int, channels: int, memory: float = 0.5) -> np.ndarray:
    """An AR(1) process of variance 1."""
    values = rng.standard_normal((n, steps, channels))
    for t in range(1, steps):
        values[:, t] = memory * values[:, t - 1] + np.sqrt(1 - memory**2) * values[:, t]
    return values


def nothing_planted(n: int, steps: int, channels: int) -> np.ndarray:
    return np.zeros((n, steps, channels), dtype=bool)


EVENT = 8


def one_event(rng: Generator, n: int) -> Drawn:
    """Class 1: channel 1 is raised for 8 steps. Class 0: it alternates. Channel 3 is raised in both."""
    x, y, truth = 0.5 * noise(rng, n, 48, 4), rng.integers(0, 2, n), nothing_planted(n, 48, 4)
    alternating = (-1.0) ** np.arange(EVENT)
    for i, (start, other) in enumerate(rng.integers(2, 38, (n, 2))):
        x[i, start : start + EVENT, 1] += 2 * (1.0 if y[i] else alternating)
        truth[i, start : start + EVENT, 1] = y[i]
        x[i, other : other + EVENT, 3] += 2
    return x, y, truth


def padded_event(rng: Generator, n: int) -> Drawn:
    """The same, but every sequence ends soon after its event, and zeros follow."""
    x, y, truth = one_event(rng, n)
    start = 47 - truth.any(2)[:, ::-1].argmax(1)
    ends = np.where(truth.any((1, 2)), start, 40) + rng.integers(1, 8, n)
    return x * (np.arange(48)[None] < ends[:, None])[..., None], y, truth


def ends_of(x: Tensor) -> list[int]:
    """How many steps come before the padding."""
    steps = torch.arange(1, x.shape[1] + 1)
    return [int(value) for value in ((x != 0).any(-1) * steps).amax(1)]


def several_events(rng: Generator, n: int) -> Drawn:
    """Spikes that return with period 10 or 17 and point up or down: four classes that share their evidence."""
    x, y, truth = 0.4 * noise(rng, n, 50, 1), rng.integers(0, 4, n), nothing_planted(n, 50, 1)
    spike = 2.5 * np.array([0.6, 1.0, 0.6])
    for i in range(n):
        period, sign = (10, 17)[y[i] % 2], 1.0 if y[i] < 2 else -1.0
        for start in range(int(rng.integers(0, period)), 48, period):
            x[i, start : start + 3, 0] += sign * spike
            truth[i, start : start + 3, 0] = True
    return x, y, truth


def ramps(rng: Generator, n: int) -> Drawn:
    """Two ramps: none, both rising, both falling, one of each. The background lies at .3, and zero far outside."""
    x, y, truth = 0.3 + 0.1 * noise(rng, n, 80, 2, 0.3), rng.integers(0, 4, n), nothing_planted(n, 80, 2)
    for i in range(n):
        for half, sign in enumerate(((), (1, 1), (-1, -1), (1, -1))[y[i]]):
            length, channel = int(rng.integers(10, 19)), int(rng.integers(2))
            start = 40 * half + int(rng.integers(1, 39 - length))
            x[i, start : start + length, channel] += sign * 0.5 * np.linspace(-1, 1, length)
            truth[i, start : start + length, channel] = True
    return x, y, truth


def redundancy(rng: Generator, n: int) -> Drawn:
    """Class 1: channels 0 and 2 are raised, or one of them, which suffices. Class 0: they alternate."""
    x, y, truth = 0.6 * noise(rng, n, 48, 4), rng.integers(0, 2, n), nothing_planted(n, 48, 4)
    alternating = (-1.0) ** np.arange(EVENT)
    for i, (start, other) in enumerate(rng.integers(2, 38, (n, 2))):
        pair = (0, 2) if rng.random() < 0.5 else (int(rng.choice((0, 2))),)
        for channel in pair:
            x[i, start : start + EVENT, channel] += 2.5 * (1.0 if y[i] else alternating)
            truth[i, start : start + EVENT, channel] = y[i] and len(pair) == 2
        x[i, other : other + EVENT, rng.choice((1, 3))] += 2.5
    return x, y, truth


def absence(rng: Generator, n: int) -> Drawn:
    """Class 1: channel 0 rests at its mean for 12 steps. Class 0: it never does. Channel 1 rests in both."""
    x, y, truth = noise(rng, n, 60, 2, 0.3), rng.integers(0, 2, n), nothing_planted(n, 60, 2)
    for i, starts in enumerate(rng.integers(0, 49, (n, 2))):
        for channel, start in enumerate(starts):
            if channel == 1 or y[i]:
                x[i, start : start + 12, channel] = 0.05 * rng.standard_normal(12)
                truth[i, start : start + 12, channel] = channel == 0
    return x, y, truth


def deteriorations(rng: Generator, n: int) -> Drawn:
    """A risk of .04 whose logit gains .7 to 1.3 with every fall of channels 0 to 2. Labels are the risks themselves."""
    x, truth = 0.4 * noise(rng, n, 48, 5), nothing_planted(n, 48, 5)
    logit = np.full(n, -3.3)
    fall = 2 * np.sin(np.pi * (np.arange(EVENT) + 0.5) / EVENT) ** 0.5
    for i in range(n):
        for place in rng.permutation(6)[: rng.choice(5, p=(0.35, 0.3, 0.2, 0.1, 0.05))]:
            depth, channel, at = (
                rng.uniform(0.7, 1.3),
                int(rng.integers(3)),
                slice(EVENT * place, EVENT * place + EVENT),
            )
            x[i, at, channel] -= depth * fall
            truth[i, at, channel] = True
            logit[i] += depth
        for place in rng.permutation(6)[: rng.integers(0, 4)]:
            x[i, EVENT * place : EVENT * place + EVENT, 3 + rng.integers(2)] -= rng.uniform(0.7, 1.3) * fall
    return x, 1 / (1 + np.exp(-logit)), truth


def trained(build: Callable[[], nn.Module], draw: Draw, steps: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build()
        x, y, _ = draw(np.random.default_rng(0), POOL)
        inputs, labels = torch.from_numpy(x).float(), torch.from_numpy(y)
        optimiser = torch.optim.Adam(model.parameters(), 1e-2)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=steps)
        for _ in range(steps):
            rows = torch.randint(POOL, (64,))
            out = model(inputs[rows])
            risk = labels.is_floating_point()
            loss = F.binary_cross_entropy_with_logits if risk else F.cross_entropy
            optimiser.zero_grad()
            loss(out, labels[rows].float() if risk else labels[rows]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
    return model.eval()


def shown(model: nn.Module, draw: Draw) -> tuple[Tensor, np.ndarray]:
    """Sequences with planted cells that are classified correctly, or whose risk is predicted between .1 and .5."""
    x, y, truth = draw(np.random.default_rng(1), 200)
    inputs = torch.from_numpy(x).float()
    with torch.no_grad():
        out = model(inputs).numpy()
    right = (out > -2.2) & (out < 0) if out.ndim == 1 else out.argmax(1) == y
    rows = np.flatnonzero(right & truth.any((1, 2)))[:SHOWN]
    assert len(rows) == SHOWN, "the model has not learnt its task"
    return inputs[rows], truth[rows]


RECIPES: dict[str, tuple[Callable[[], nn.Module], Draw, int]] = {
    "one event": (partial(Memory, 4, 2), one_event, 400),
    "several events": (partial(Filters, 1, 4, 11, greatest=False), several_events, 200),
    "ramps": (partial(Filters, 2, 4, 9), ramps, 300),
    "redundancy": (partial(Filters, 4, 2), redundancy, 120),
    "absence": (partial(Filters, 2, 2, 7), absence, 250),
    "risk": (partial(Memory, 5, 1), deteriorations, 200),
    "padding": (partial(Filters, 4, 2), padded_event, 120),
}


@cache
def trained_nature(name: str) -> Nature:
    build, draw, steps = RECIPES[name]
    model = trained(build, draw, steps)
    x, truth = shown(model, draw)
    return Nature(model, x, truth, {"lengths": ends_of(x)} if name == "padding" else {})


def calibration_error(parts: list[tuple[Masks, np.ndarray]]) -> float:
    """Over cells with a coefficient of at least .05, in ten bins: mean |mean coefficient - share of planted cells|."""
    values = np.concatenate([masks.masks.ravel() for masks, _ in parts]).astype(np.float64)
    hits = np.concatenate([truth.ravel() for _, truth in parts])
    values, hits = values[values >= 0.05], hits[values >= 0.05]
    bins = np.minimum((10 * values).astype(int), 9)
    gaps = np.bincount(bins, weights=values - hits, minlength=10)
    return float(np.abs(gaps).sum() / len(values))


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's, 0 where either side is constant."""
    return float(np.nan_to_num(spearman(one, other)))
