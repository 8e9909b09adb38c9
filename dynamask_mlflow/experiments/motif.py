"""One label a sequence: a short pattern, planted in a channel that matters, decides the class.

Every sequence holds decoys: the pattern itself in channels that do not matter, and another pattern of equal
length and energy in the channels that do. A sequence of class 0 gets that other pattern where one of class 1
gets the motif, so neither the number of events nor the energy of a channel gives the class away: only shape
and channel together do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Shape = Literal["bump", "zigzag"]
SHAPES: tuple[Shape, ...] = ("bump", "zigzag")
MIN_LENGTH = 3


@dataclass(frozen=True, kw_only=True)
class MotifSetting:
    """How the sequences are drawn.

    Attributes:
        length: steps of the motif.
        shape: "bump" (the level rises) or "zigzag" (it alternates); the decoy has the other one.
        strength: root of the motif's energy over the standard deviation of the background, so that long and
            short motifs are equally easy for a matched filter; a cell's amplitude is strength / sqrt(length).
        relevant: how many channels matter; which ones is drawn with the seed.
        planted: in how many of them at once the motif occurs in a sequence of class 1.
        memory: coefficient of the AR(1) background, whose variance is 1.
        decoys: events of each kind in every sequence.
    """

    steps: int = 96
    channels: int = 12
    length: int = 8
    shape: Shape = "bump"
    strength: float = 10.0
    relevant: int = 2
    planted: int = 1
    memory: float = 0.5
    decoys: int = 2

    def __post_init__(self) -> None:
        if self.length < MIN_LENGTH:
            raise ValueError(f"Expected length >= {MIN_LENGTH}, but got {self.length}.")
        if self.shape not in SHAPES:
            raise ValueError(f"Expected shape to be one of {SHAPES}, but got {self.shape!r}.")
        if not 1 <= self.planted <= self.relevant < self.channels:
            raise ValueError(
                "Expected 1 <= planted <= relevant < channels, "
                f"but got {self.planted}, {self.relevant} and {self.channels}."
            )
        needed = (self.decoys + 1) * self.length
        if self.steps < needed:
            raise ValueError(f"Expected steps >= {needed}: events must not overlap. But got {self.steps}.")


@dataclass(frozen=True, eq=False)
class MotifData:
    """Sequences x (N, T, d), labels y (N,), and the motif's cells truth (N, T, d), none in class 0."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    truth: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, rows: NDArray[np.int64]) -> MotifData:
        return MotifData(self.x[rows], self.y[rows], self.truth[rows])


def patterns(setting: MotifSetting) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The motif and the other pattern, both of energy strength^2."""
    level = np.full(setting.length, setting.strength / np.sqrt(setting.length))
    zigzag = level * (-1.0) ** np.arange(setting.length)
    return (level, zigzag) if setting.shape == "bump" else (zigzag, level)


def relevant_channels(setting: MotifSetting, *, seed: int) -> NDArray[np.int64]:
    """The channels that matter for every sequence of this seed."""
    chosen = np.random.default_rng([seed, 3]).choice(setting.channels, setting.relevant, replace=False)
    return np.sort(chosen)


def make_motif(
    setting: MotifSetting | None = None,
    *,
    seed: int,
    n: int = 400,
    part: int = 0,
    strength: float | None = None,
) -> MotifData:
    """n sequences, half of each class. Parts of one seed share the channels that matter and nothing else."""
    setting = setting or MotifSetting()
    rng = np.random.default_rng([seed, 4, part])
    relevant = relevant_channels(setting, seed=seed)
    irrelevant = np.setdiff1d(np.arange(setting.channels), relevant)
    x, y = _background(rng, n, setting), rng.permutation(np.arange(n) % 2)
    truth = np.zeros(x.shape, dtype=np.bool_)
    scale = 1.0 if strength is None else strength / setting.strength
    motif, other = (scale * pattern for pattern in patterns(setting))
    for i in range(n):
        starts = _starts(rng, setting)
        window = slice(starts[0], starts[0] + setting.length)
        for channel in rng.choice(relevant, setting.planted, replace=False):
            x[i, window, channel] += motif if y[i] else other
            truth[i, window, channel] = bool(y[i])
        for start in starts[1:]:
            x[i, start : start + setting.length, rng.choice(relevant)] += other
        for start in _starts(rng, setting)[1:]:
            x[i, start : start + setting.length, rng.choice(irrelevant)] += motif
    return MotifData(x=x.astype(np.float32), y=y, truth=truth)


def _background(rng: np.random.Generator, n: int, setting: MotifSetting) -> NDArray[np.float64]:
    noise = rng.standard_normal((setting.steps, n, setting.channels))
    x = np.empty_like(noise)
    x[0] = noise[0]
    spread = np.sqrt(1 - setting.memory**2)
    for t in range(1, setting.steps):
        x[t] = setting.memory * x[t - 1] + spread * noise[t]
    return x.transpose(1, 0, 2).copy()


def _starts(rng: np.random.Generator, setting: MotifSetting) -> NDArray[np.int64]:
    """Where decoys + 1 events begin that do not overlap, in random order."""
    count = setting.decoys + 1
    gaps = np.sort(rng.integers(0, setting.steps - count * setting.length + 1, count))
    return rng.permutation(gaps + setting.length * np.arange(count))
