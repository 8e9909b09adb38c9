"""Classification tasks of one or two events: absence, redundancy, exclusive or, long, wide, unequal lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.experiments.arena.data import Generator, Part, apart, ar_noise, balanced, bump, zigzag


def empty(n: int, steps: int, channels: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Truth and running of n sequences in which nothing is planted yet."""
    return np.zeros((n, steps, channels), dtype=np.bool_), np.zeros((n, steps), dtype=np.int64)


def flat(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Class 1: the channel that matters rests at its mean for 14 steps; class 0: it never does. Salient: that rest.

    T = 80, d = 3. The evidence is an absence: its cells have the value that a baseline would give them. The other
    channels rest in both classes.
    """
    steps, channels, length = 80, 3, 14
    relevant = int(shared.integers(channels))
    x, y = ar_noise(rng, n, steps, channels, 0.3), balanced(rng, n, 2)
    truth, running = empty(n, steps, channels)
    for i in range(n):
        for channel in range(channels):
            (window,) = apart(rng, steps, [length])
            if channel != relevant or y[i] == 1:
                x[i, window, channel] = 0.05 * rng.standard_normal(length)
            if channel == relevant and y[i] == 1:
                truth[i, window, channel] = True
                running[i, window.stop - 4 :] = 1
    return Part(x.astype(np.float32), y, truth, running)


def redundant(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Class 1: a raised level of 8 steps in two channels at once, either of which suffices. Salient: both.

    T = 80, d = 6. Half of the sequences of class 1 have the event in one of the two channels only, which teaches the
    model that one is enough; explained are those that have both. Class 0 has an alternating level instead; the other
    channels hold raised levels in both classes.
    """
    steps, channels, length = 80, 6, 8
    pair = shared.permutation(channels)[:2]
    others = np.setdiff1d(np.arange(channels), pair)
    x, y = ar_noise(rng, n, steps, channels), balanced(rng, n, 2)
    truth, running = empty(n, steps, channels)
    event, other = bump(length, 9 * strength), zigzag(length, 9 * strength)
    both = rng.random(n) < 0.5
    for i in range(n):
        window, decoy = apart(rng, steps, [length, length])
        for channel in pair if both[i] else rng.permutation(pair)[:1]:
            x[i, window, channel] += event if y[i] else other
            truth[i, window, channel] = bool(y[i])
        x[i, decoy, rng.choice(pair)] += other
        x[i, apart(rng, steps, [length])[0], rng.choice(others)] += event
        running[i, window.stop :] = y[i]
    return Part(x.astype(np.float32), y, truth, running, explained=both)


def xor(explain: Sequence[int], shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Event A in one channel and event B in another: class 1 if exactly one of them is there.

    T = 80, d = 4. With exactly one event its cells are salient: without them the class changes; that the other event
    is missing matters as well, but has no cells. With both events the class is 0 and the cells of both are salient:
    without either the class changes. With none nothing is known. `explain` is the number of events of the explained
    sequences.
    """
    steps, channels, length = 80, 4, 8
    first, second = (int(channel) for channel in shared.permutation(channels)[:2])
    kinds = balanced(rng, n, 4)
    x, y = ar_noise(rng, n, steps, channels), ((kinds == 1) | (kinds == 2)).astype(np.int64)
    truth, running = empty(n, steps, channels)
    for i in range(n):
        windows = apart(rng, steps, [length, length])
        for bit, (window, channel) in enumerate(zip(windows, (first, second), strict=True)):
            present = bool(kinds[i] >> bit & 1)
            x[i, window, channel] += bump(length, 9 * strength) if present else 0.0
            truth[i, window, channel] = present
            running[i, window.stop :] += (1 << bit) if present else 0
    return Part(x.astype(np.float32), y, truth, running, explained=np.isin(truth.any(1).sum(1), explain))


def motif_pattern(length: int, energy: float) -> NDArray[np.float64]:
    """A raised level and then a lowered one: no mean gives it away, and every cell holds the same share of it."""
    return bump(length, energy) * np.where(np.arange(length) < length // 2, 1.0, -1.0)


@dataclass(frozen=True)
class MotifShape:
    """Sequences of so many steps and channels, the length of the motif, and the channels that hold one besides."""

    steps: int
    channels: int
    length: int
    decoys: int


def one_motif(shape: MotifShape, shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Class 1: a motif in the channel that matters; class 0: its mirror image there. Salient: either of them.

    The decoys hold the motif or its mirror image, whatever the class.
    """
    steps, channels, length, decoys = shape.steps, shape.channels, shape.length, shape.decoys
    relevant = int(shared.integers(channels))
    others = np.setdiff1d(np.arange(channels), [relevant])
    x, y = ar_noise(rng, n, steps, channels, 0.3), balanced(rng, n, 2)
    truth, running = empty(n, steps, channels)
    motif = motif_pattern(length, 11 * strength)
    for i in range(n):
        (window,) = apart(rng, steps, [length])
        x[i, window, relevant] += motif if y[i] else -motif
        truth[i, window, relevant] = True
        running[i, window.stop :] = 1 + y[i]
        chosen = rng.permutation(others)[:decoys]
        times = rng.integers(0, steps - length + 1, decoys)[:, None] + np.arange(length)
        x[i, times, chosen[:, None]] += rng.choice([-1.0, 1.0], (decoys, 1)) * motif
    return Part(x.astype(np.float32), y, truth, running)


def unequal_lengths(presence: bool, shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """A raised level of 8 steps in the channel that matters, in sequences of 20 to 60 steps, padded with zeros.

    Class 0 has an alternating level instead; other channels hold raised levels. Salient: the raised level. With
    `presence` the last channel is 1 at existing steps and 0 in the padding; without it steps of zeros are padding.
    """
    steps, channels, length = 60, 4, 8
    relevant = int(shared.integers(channels))
    others = np.setdiff1d(np.arange(channels), [relevant])
    x, y = ar_noise(rng, n, steps, channels), balanced(rng, n, 2)
    lengths = rng.integers(20, steps + 1, n)
    truth, running = empty(n, steps, channels + presence)
    for i in range(n):
        (window,) = apart(rng, int(lengths[i]), [length])
        x[i, window, relevant] += (bump if y[i] else zigzag)(length, 9 * strength)
        truth[i, window, relevant] = bool(y[i])
        running[i, window.stop :] = y[i]
        x[i, apart(rng, int(lengths[i]), [length])[0], rng.choice(others)] += bump(length, 9 * strength)
    exists = np.arange(steps)[None] < lengths[:, None]
    x *= exists[..., None]
    if presence:
        x = np.concatenate([x, exists[..., None]], axis=-1)
    return Part(x.astype(np.float32), y, truth, running, lengths=lengths)


def raw_units(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Channels in units of their own, each sequence at levels of its own. The class is the sign of a shift of 10 steps.

    T = 60, d = 5. Levels are 1 to 6, deviations .3 to 1, and sequences differ in level by .7 deviations. The other
    channels shift too, in directions of their own. Salient: the shift in the channel that matters.
    """
    steps, channels, length = 60, 5, 10
    relevant = int(shared.integers(channels))
    level, deviation = shared.uniform(1, 6, channels), shared.uniform(0.3, 1.0, channels)
    x, y = ar_noise(rng, n, steps, channels), balanced(rng, n, 2)
    x += 0.7 * rng.standard_normal((n, 1, channels))
    truth, running = empty(n, steps, channels)
    for i in range(n):
        for channel in range(channels):
            (window,) = apart(rng, steps, [length])
            sign = 2 * y[i] - 1 if channel == relevant else rng.choice([-1, 1])
            x[i, window, channel] += 2.8 * strength * sign
            if channel == relevant:
                truth[i, window, channel] = True
                running[i, window.stop - 3 :] = 1 + y[i]
    return Part((level + deviation * x).astype(np.float32), y, truth, running)


def synchrony(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """For 16 steps two channels carry the same noise (class 1), or each the negative of the other's (class 0).

    T = 60, d = 4. No channel tells the class by itself. Salient: those steps of both channels. Where the noise is near
    zero a cell hardly counts, so the cells of a window differ a lot.
    """
    steps, channels, length = 60, 4, 16
    first, second = (int(channel) for channel in shared.permutation(channels)[:2])
    x, y = ar_noise(rng, n, steps, channels, 0.3), balanced(rng, n, 2)
    truth, running = empty(n, steps, channels)
    for i in range(n):
        (window,) = apart(rng, steps, [length])
        common = 2.2 * strength * rng.standard_normal(length)
        x[i, window, first], x[i, window, second] = common, common if y[i] else -common
        truth[i, window, first] = truth[i, window, second] = True
        running[i, window.start + 10 :] = 1 + y[i]
    return Part(x.astype(np.float32), y, truth, running)
