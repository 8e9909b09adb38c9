"""Small tasks with planted salient cells, for models of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS, CHANNELS = 24, 4
EVENT = 5
HEIGHT = 1.5
NOISE = 0.5
HORIZONS = 3
CODES = 4


@dataclass(frozen=True, eq=False)
class Planted:
    """Sequences with the cells that carry the label.

    Attributes:
        x: (N, T, d) float32. y: (N,) classes, or (N, H) or (N, H, d) values.
        truth: (N, T, d) True where a cell carries the label.
        lengths, observed: as in `mlflow.data.from_sequences`.
        extras: further inputs of the model, name -> (N, ...).
    """

    x: NDArray[np.float32]
    y: NDArray[Any]
    truth: NDArray[np.bool_]
    lengths: NDArray[np.int64] | None = None
    observed: NDArray[np.bool_] | None = None
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.x)


def one_event(n: int, seed: int) -> Planted:
    """Noise, and one event of five steps in one of the channels: class 1 where it points up, 0 where it points down."""
    rng = np.random.default_rng([seed, 0x200])
    truth, y = _places(rng, np.full(n, STEPS)), rng.integers(0, 2, n)
    return Planted(_events(rng, truth, np.where(y == 1, HEIGHT, -HEIGHT)), y, truth)


def unequal_lengths(n: int, seed: int) -> Planted:
    """One event in sequences of 12 to 24 steps; in the padding an event points the other way."""
    rng = np.random.default_rng([seed, 0x201])
    lengths, y = rng.integers(STEPS // 2, STEPS + 1, n), rng.integers(0, 2, n)
    height = np.where(y == 1, HEIGHT, -HEIGHT)
    truth = _places(rng, lengths)
    padding = (np.arange(STEPS) >= lengths[:, None])[:, :, None]
    x = np.where(padding, -height[:, None, None], _events(rng, truth, height)).astype(np.float32)
    return Planted(x, y, truth, lengths=lengths)


def partly_measured(n: int, seed: int) -> Planted:
    """One event, 60 % of the cells measured, the others carried forward, and a static feature that adds to it.

    Where the static feature outweighs the event, no cell carries the label.
    """
    rng = np.random.default_rng([seed, 0x202])
    whole = one_event(n, seed)
    observed = rng.random(whole.x.shape) < 0.6
    static = rng.normal(0, 1, (n, 2)).astype(np.float32)
    score = np.where(whole.y == 1, 1.0, -1.0) + 0.8 * static[:, 0]
    y = (score > 0).astype(np.int64)
    return replace(
        whole,
        x=carried_forward(whole.x, observed),
        y=y,
        truth=whole.truth & observed & (y == whole.y)[:, None, None],
        observed=observed,
        extras={"static": static},
    )


def charting(n: int, seed: int) -> Planted:
    """A ward where being measured carries the label: values are noise, and in class 1 one channel is charted densely.

    One cell in five is measured; in class 1 also five in a row of one channel, the planted cells.
    """
    rng = np.random.default_rng([seed, 0x203])
    y = rng.integers(0, 2, n)
    truth = _places(rng, np.full(n, STEPS)) & (y == 1)[:, None, None]
    observed = (rng.random(truth.shape) < 0.2) | truth
    observed[:, 0, 0] |= ~observed.any(axis=(1, 2))
    x = rng.normal(0, NOISE, truth.shape).astype(np.float32)
    return Planted(carried_forward(x, observed), y, truth, observed=observed)


def coded(n: int, seed: int) -> Planted:
    """One event whose meaning depends on the code of its steps: with two of four codes it counts the other way."""
    rng = np.random.default_rng([seed, 0x204])
    codes = np.repeat(rng.integers(0, CODES, (n, STEPS // 6)), 6, axis=1)
    truth, y = _places(rng, np.full(n, STEPS)), rng.integers(0, 2, n)
    turned = np.where(codes >= CODES // 2, -1, 1)[:, :, None]
    x = _events(rng, truth, np.where(y == 1, HEIGHT, -HEIGHT)) * turned
    return Planted(x.astype(np.float32), y, truth, extras={"codes": codes})


def forecast(n: int, seed: int) -> Planted:
    """Values at three horizons (N, H) that fade from the height of the event."""
    rng = np.random.default_rng([seed, 0x205])
    height = rng.choice([-1.0, 1.0], n) * rng.uniform(1.0, 2.5, n)
    truth = _places(rng, np.full(n, STEPS))
    y = height[:, None] * 0.8 ** np.arange(HORIZONS)
    return Planted(_events(rng, truth, height), y.astype(np.float32), truth)


def forecast_of_channels(n: int, seed: int) -> Planted:
    """The same, of every channel (N, H, d): those without the event are forecast as 0."""
    planted = forecast(n, seed)
    channel = np.asarray(planted.truth.any(axis=1))[:, None, :]
    return replace(planted, y=(planted.y[:, :, None] * channel).astype(np.float32))


def carried_forward(x: NDArray[np.float32], observed: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The last measured value of each channel, 0 before there is any."""
    filled = np.zeros_like(x)
    last = np.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        last = np.where(observed[:, t], x[:, t], last)
        filled[:, t] = last
    return filled


def _places(rng: np.random.Generator, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(N, T, d): five steps of one channel of each sequence."""
    truth = np.zeros((len(lengths), STEPS, CHANNELS), dtype=np.bool_)
    starts = (rng.random(len(lengths)) * (lengths - EVENT + 1)).astype(np.int64)
    channels = rng.integers(0, CHANNELS, len(lengths))
    for row, (start, channel) in enumerate(zip(starts, channels, strict=True)):
        truth[row, start : start + EVENT, channel] = True
    return truth


def _events(rng: np.random.Generator, truth: NDArray[np.bool_], height: NDArray[Any]) -> NDArray[np.float32]:
    noise = rng.normal(0, NOISE, truth.shape)
    return np.asarray(noise + truth * height[:, None, None], dtype=np.float32)
