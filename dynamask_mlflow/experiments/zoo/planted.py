"""Small tasks with planted salient cells, for models of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS, CHANNELS = 24, 4
EVENT = 5
HEIGHT = 1.5
NOISE = 0.5


@dataclass(frozen=True, eq=False)
class Planted:
    """Sequences with the cells that carry the label.

    Attributes:
        x: (N, T, d) float32. y: (N,) classes, or (N, H) values.
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


def one_event(n: int, seed: int, *, variable: bool = False) -> Planted:
    """Noise, and one event of five steps in one of the channels: class 1 where it points up, 0 where it points down.

    With `variable`, sequences have 12 to 24 steps, and the padding holds an event that points the other way: a model
    that reads it is wrong.
    """
    rng = np.random.default_rng([seed, 0x200])
    x = rng.normal(0, NOISE, (n, STEPS, CHANNELS)).astype(np.float32)
    lengths = rng.integers(STEPS // 2, STEPS + 1, n) if variable else np.full(n, STEPS)
    y = rng.integers(0, 2, n)
    truth = np.zeros(x.shape, dtype=np.bool_)
    starts = (rng.random(n) * (lengths - EVENT + 1)).astype(np.int64)
    channels = rng.integers(0, CHANNELS, n)
    for row, (start, channel) in enumerate(zip(starts, channels, strict=True)):
        truth[row, start : start + EVENT, channel] = True
    x += truth * np.where(y == 1, HEIGHT, -HEIGHT)[:, None, None].astype(np.float32)
    if not variable:
        return Planted(x, y, truth)
    padding = np.arange(STEPS) >= lengths[:, None]
    x = np.where(padding[:, :, None], np.where(y == 1, -HEIGHT, HEIGHT)[:, None, None], x).astype(np.float32)
    return Planted(x, y, truth, lengths=lengths)
