"""What every generator of the arena returns, and what the generators share: noise, windows, random streams."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Generator = np.random.Generator
FloatArray = NDArray[np.float64]

VALIDATION = 1_000_000
TEST = 1_000_001


@dataclass(frozen=True, eq=False)
class Part:
    """Sequences of one part (a training epoch, the validation or the test part) of one seed.

    Attributes:
        x: (N, T, d) float32.
        y: (N,) classes, (N, T) classes at every step, or (N,) values or probabilities.
        truth: (N, T, d) the cells in which the evidence was planted.
        running: (N, T) what a reader knows at each step, as an integer; the target of an auxiliary loss in training.
        explained: (N,) the sequences whose salient cells are known; None: those that hold planted cells.
        lengths: (N,) existing steps; None: all of them.
    """

    x: NDArray[np.float32]
    y: NDArray[Any]
    truth: NDArray[np.bool_]
    running: NDArray[np.int64] | None = None
    explained: NDArray[np.bool_] | None = None
    lengths: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, rows: NDArray[Any]) -> Part:
        def chosen(values: NDArray[Any] | None) -> NDArray[Any] | None:
            return None if values is None else values[rows]

        return Part(
            x=self.x[rows],
            y=self.y[rows],
            truth=self.truth[rows],
            running=chosen(self.running),
            explained=chosen(self.explained),
            lengths=chosen(self.lengths),
        )

    def with_known_truth(self) -> NDArray[np.bool_]:
        """(N,) whose salient cells are known and not none."""
        planted = np.asarray(self.truth.any(axis=(1, 2)))
        return planted if self.explained is None else planted & self.explained


Draw = Callable[[Generator, Generator, int, float], Part]
"""(shared, rng, n, strength) to a part: `shared` is equal for all parts of a seed, `rng` belongs to the part,
`strength` multiplies what is planted (training starts with more than 1).
"""


def draw_part(name: str, draw: Draw, *, seed: int, n: int, part: int = 0, strength: float = 1.0) -> Part:
    """n sequences of a task. Parts of one seed have in common what the task draws from `shared`, and nothing else."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), 1, part])
    return draw(shared_stream(name, seed), rng, n, strength)


def shared_stream(name: str, seed: int) -> Generator:
    """What all parts of a seed share, always from its beginning."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def ar_noise(rng: Generator, n: int, steps: int, channels: int, memory: float = 0.5) -> FloatArray:
    """(n, steps, channels) of an AR(1) process of variance 1."""
    noise = rng.standard_normal((steps, n, channels))
    spread = np.sqrt(1 - memory**2)
    for t in range(1, steps):
        noise[t] = memory * noise[t - 1] + spread * noise[t]
    return noise.transpose(1, 0, 2).copy()


def apart(rng: Generator, steps: int, lengths: Sequence[int], margin: int = 0) -> list[slice]:
    """A window of each length, none overlapping, in random order, `margin` steps from the ends and each other."""
    order = rng.permutation(len(lengths))
    free = steps - sum(lengths) - margin * (len(lengths) + 1)
    if free < 0:
        raise ValueError(f"Expected windows that fit into {steps} steps, but got lengths {list(lengths)}.")
    gaps = np.sort(rng.integers(0, free + 1, len(lengths)))
    windows: list[slice] = [slice(0, 0)] * len(lengths)
    used = 0
    for place, which in enumerate(order):
        start = int(gaps[place]) + used + margin * (place + 1)
        windows[which] = slice(start, start + lengths[which])
        used += lengths[which]
    return windows


def balanced(rng: Generator, n: int, classes: int) -> NDArray[np.int64]:
    """n classes in random order, equally often."""
    return np.asarray(rng.permutation(np.arange(n) % classes))


def bump(length: int, energy: float) -> FloatArray:
    """A raised level whose root of energy is `energy`."""
    return np.full(length, energy / np.sqrt(length))


def zigzag(length: int, energy: float) -> FloatArray:
    """An alternating level of the same energy as `bump`."""
    return bump(length, energy) * (-1.0) ** np.arange(length)
