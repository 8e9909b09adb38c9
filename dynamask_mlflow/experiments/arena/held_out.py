"""Families on which no setting of the package is chosen: they only tell what the chosen ones are worth elsewhere."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.experiments.arena.data import Generator, Part, apart, ar_noise, balanced, bump, zigzag
from dynamask_mlflow.experiments.arena.events import empty


def level_shift(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """One channel's level shifts by .8, up or down, at a change point and stays there: the class is the sign.

    T = 60, d = 4, noise of variance 1 around the levels. Salient: the channel's cells from the change point on. The
    other channels shift too, in directions of their own. The noise makes the model average over many steps, but how
    many of them it needs is its own affair: a model that reads the end alone is not wrong.
    """
    steps, channels = 60, 4
    relevant = int(shared.integers(channels))
    x, y = ar_noise(rng, n, steps, channels, 0.2), balanced(rng, n, 2)
    truth, running = empty(n, steps, channels)
    for i in range(n):
        for channel in range(channels):
            start = int(rng.integers(20, 45))
            sign = 2 * y[i] - 1 if channel == relevant else rng.choice([-1, 1])
            x[i, start:, channel] += 0.8 * strength * sign
            if channel == relevant:
                truth[i, start:, channel] = True
                running[i, start + 6 :] = 1 + y[i]
    return Part(x.astype(np.float32), y, truth, running)


def frequency_burst(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Class 1: an oscillation of period 4 for 16 steps in the channel that matters; class 0: one of period 8.

    T = 80, d = 4, random phases. Salient: the oscillation of class 1. Other channels oscillate with either period.
    """
    steps, channels, length = 80, 4, 16
    relevant = int(shared.integers(channels))
    x, y = ar_noise(rng, n, steps, channels, 0.3), balanced(rng, n, 2)
    truth, running = empty(n, steps, channels)
    for i in range(n):
        for channel in range(channels):
            (window,) = apart(rng, steps, [length])
            fast = y[i] == 1 if channel == relevant else rng.random() < 0.5
            phase = 2 * np.pi * (rng.random() + np.arange(length) / (4 if fast else 8))
            x[i, window, channel] += 2.5 * strength * np.sin(phase)
            if channel == relevant:
                truth[i, window, channel] = bool(y[i])
                running[i, window.stop :] = 1 + y[i]
    return Part(x.astype(np.float32), y, truth, running)


def two_of_three(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Class 1: at least two of three events, each a raised level of 8 steps in a channel of its own.

    T = 80, d = 5. An event that is missing leaves an alternating level. Explained are sequences of class 1 with exactly
    two events: both are needed, so the cells of both are salient. With three of them any two would do.
    """
    steps, channels, length = 80, 5, 8
    where = shared.permutation(channels)[:3]
    count = rng.permutation(np.array([0, 1, 1, 2, 2, 3])[np.arange(n) % 6])
    x, y = ar_noise(rng, n, steps, channels), (count >= 2).astype(np.int64)
    truth, running = empty(n, steps, channels)
    for i in range(n):
        present = rng.permutation(np.arange(3) < count[i])
        for window, channel, there in zip(apart(rng, steps, [length] * 3), where, present, strict=True):
            x[i, window, channel] += (bump if there else zigzag)(length, 9 * strength)
            truth[i, window, channel] = there
            running[i, window.stop :] += int(there)
    return Part(x.astype(np.float32), y, truth, running, explained=count == 2)


def many_channels(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """14 of 50 channels matter. Each of them has one pulse at a step of its own, all up or all down: the class.

    T = 40, d = 50. Salient: those 14 cells. Every other channel has a pulse up or down as well.
    """
    steps, channels, count = 40, 50, 14
    relevant = shared.permutation(channels)[:count]
    x, y = 0.7 * ar_noise(rng, n, steps, channels, 0.3), balanced(rng, n, 2)
    truth, _ = empty(n, steps, channels)
    times = rng.integers(2, steps - 2, (n, channels))
    signs = rng.choice([-1.0, 1.0], (n, channels))
    signs[:, relevant] = (2.0 * y - 1)[:, None]
    rows, columns = np.arange(n)[:, None], np.arange(channels)[None]
    x[rows, times, columns] += 3 * strength * signs
    truth[rows, times[:, relevant], relevant[None]] = True
    seen = truth.any(-1).cumsum(1) >= 3
    return Part(x.astype(np.float32), y, truth, np.where(seen, 1 + y[:, None], 0))


BASE_LOGIT = -3.3


def risk(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """A risk whose logit is -3.3, plus .7 to 1.3 for each of up to five deteriorations, plus noise of .3; about 15 %.

    T = 60, d = 8, of which four channels matter. A deterioration is a fall below the usual level over 8 steps whose
    depth is what it adds to the logit. Salient: the cells of all deteriorations. The other channels fall too, without
    meaning. y is the risk itself and not an outcome drawn from it, so that training needs few sequences.
    """
    steps, channels, length = 60, 8, 8
    relevant = shared.permutation(channels)[:4]
    others = np.setdiff1d(np.arange(channels), relevant)
    x = 0.4 * ar_noise(rng, n, steps, channels)
    truth = np.zeros(x.shape, dtype=np.bool_)
    logit = np.full(n, BASE_LOGIT)
    fall = np.sin(np.pi * (np.arange(length) + 0.5) / length) ** 0.5
    for i in range(n):
        for window in apart(rng, steps, [length] * int(rng.choice(6, p=(0.4, 0.3, 0.15, 0.08, 0.05, 0.02)))):
            weight, channel = rng.uniform(0.7, 1.3), rng.choice(relevant)
            x[i, window, channel] -= 2 * weight * fall
            truth[i, window, channel] = True
            logit[i] += weight
        for window in apart(rng, steps, [length] * int(rng.integers(0, 4))):
            x[i, window, rng.choice(others)] -= 2 * rng.uniform(0.7, 1.3) * fall
    y = 1 / (1 + np.exp(-logit - 0.3 * rng.standard_normal(n)))
    return Part(x.astype(np.float32), y.astype(np.float32), truth)
