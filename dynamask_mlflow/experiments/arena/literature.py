"""Classification tasks after the literature: FreqShapes, SeqComb and LowVar (TimeX), written anew."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.experiments.arena.data import Generator, Part, apart, ar_noise, balanced

PERIODS = (10, 17)


def freqshapes(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Spikes of three steps that return with period 10 or 17 and point up or down: four classes. Salient: the spikes.

    T = 50, d = 1. The classes share their evidence: a spike alone gives the sign, two of them the period.
    """
    steps, spike = 50, 2.5 * strength * np.array([0.6, 1.0, 0.6])
    x, y = 0.4 * ar_noise(rng, n, steps, 1), balanced(rng, n, 4)
    truth, running = np.zeros(x.shape, dtype=np.bool_), np.zeros((n, steps), dtype=np.int64)
    for i in range(n):
        period, sign = PERIODS[y[i] % 2], 1.0 if y[i] < 2 else -1.0
        starts = range(int(rng.integers(0, period)), steps - 2, period)
        for start in starts:
            x[i, start : start + 3, 0] += sign * spike
            truth[i, start : start + 3, 0] = True
        running[i, starts[1] + 3 :] = 1 + y[i]
    return Part(x.astype(np.float32), y, truth, running)


def seqcomb(steps: int, channels: int, shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """Two ramps of 10 to 20 steps: none, both rising, both falling, one of each: four classes. Salient: the ramps.

    Ramps are centred, so only their direction tells. The background lies at .3 with a small spread: zero is far
    outside of it. With several channels the two ramps lie in two of them.
    """
    x, y = 0.3 + 0.1 * ar_noise(rng, n, steps, channels, 0.3), balanced(rng, n, 4)
    truth, running = np.zeros(x.shape, dtype=np.bool_), np.zeros((n, steps), dtype=np.int64)
    for i in range(n):
        lengths = rng.integers(10, 21, 2).tolist()
        signs = {0: (), 1: (1, 1), 2: (-1, -1), 3: (1, -1)}[int(y[i])]
        where = rng.permutation(channels)[:2] if channels > 1 else np.zeros(2, dtype=np.int64)
        events = sorted(zip(apart(rng, steps, lengths, 2), signs, where, strict=False), key=lambda e: e[0].start)
        for number, (window, sign, channel) in enumerate(events):
            x[i, window, channel] += sign * 0.5 * strength * np.linspace(-1, 1, window.stop - window.start)
            truth[i, window, channel] = True
            running[i, window.start + 4 : window.stop] += 6 if sign > 0 else 12
            running[i, window.stop :] = (1 if sign > 0 else 2) if number == 0 else 2 + y[i]
    return Part(x.astype(np.float32), y, truth, running)


def lowvar(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """One quiet stretch of 20 to 40 steps, in one of two channels, at -1 or 1: four classes. Salient: the stretch.

    T = 200, d = 2. The background has variance 1, so single values of the stretch are nothing unusual.
    """
    steps = 200
    x, y = rng.standard_normal((n, steps, 2)), balanced(rng, n, 4)
    truth, running = np.zeros(x.shape, dtype=np.bool_), np.zeros((n, steps), dtype=np.int64)
    for i in range(n):
        (window,) = apart(rng, steps, [int(rng.integers(20, 41))])
        channel, level = int(y[i]) % 2, 1.0 if y[i] < 2 else -1.0
        x[i, window, channel] = strength * level + 0.1 * rng.standard_normal(window.stop - window.start)
        truth[i, window, channel] = True
        running[i, window.start + 10 :] = 1 + y[i]
    return Part(x.astype(np.float32), y, truth, running)
