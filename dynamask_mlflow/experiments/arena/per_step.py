"""Tasks with a label at every step: switch-feature (after ContraLSP) and delayed-spike (after WinIT), written anew."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.experiments.arena.data import Generator, Part, ar_noise


def switch_feature(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """A hidden state chooses which of three features drives the label: y_t = 1 where that feature is above zero.

    T = 80, d = 3. The state stays with probability .985 from step to step. It shows in the levels of the two features
    that do not drive the label: one lies at 1.5, the other at -1.5. Salient: the driving feature at every step. The
    others matter for the state, which is known from many steps at once; like the original we do not count them.
    """
    steps = 80
    states = np.empty((n, steps), dtype=np.int64)
    states[:, 0] = rng.integers(0, 3, n)
    for t in range(1, steps):
        moved = rng.integers(1, 3, n) * (rng.random(n) > 0.985)
        states[:, t] = (states[:, t - 1] + moved) % 3
    levels = 1.5 * np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    x = strength * levels[states] + rng.standard_normal((n, steps, 3))
    truth = np.arange(3) == states[..., None]
    y = (x[truth].reshape(n, steps) > 0).astype(np.int64)
    return Part(x.astype(np.float32), y, truth)


def delayed_spike(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """y_t = 1 from two steps after the first spike of channel 0 on. Salient: that spike, one cell.

    T = 80, d = 3, spikes of height 4 to 6 in all channels. After the first spike further ones in channel 0 change
    nothing. Before it the label is 0 because there was no spike: those answers rest on no cell, and only the answers
    after it are spoken for by the truth.
    """
    steps = 80
    x = 0.5 * ar_noise(rng, n, steps, 3)
    spikes = rng.random(x.shape) < np.array([0.025, 0.04, 0.04])
    x += spikes * strength * rng.uniform(4, 6, x.shape)
    first = np.cumsum(spikes[..., 0], axis=1)
    truth = np.zeros(x.shape, dtype=np.bool_)
    truth[..., 0] = spikes[..., 0] & (first == 1)
    y = np.zeros((n, steps), dtype=np.int64)
    y[:, 2:] = first[:, :-2] > 0
    return Part(x.astype(np.float32), y, truth, explained=np.asarray(truth[:, 5:-10, 0].any(1)))
