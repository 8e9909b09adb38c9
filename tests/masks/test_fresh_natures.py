"""Natures of evidence on which nothing was chosen: the default is compared with integrated gradients on them.

The rival is the best of eight readings of integrated gradients, picked with the truth in hand.
"""

from functools import cache, partial

import numpy as np
import pytest
from natures import Draw, Drawn, Filters, Memory, Nature, noise, nothing_planted, quality, shown, trained
from numpy.random import Generator
from torch import nn

from dynamask_mlflow.experiments.arena.ig_readings import ig_readings
from dynamask_mlflow.metrics import auprc


def conjunction(rng: Generator, n: int) -> Drawn:
    """Class 1: channel 0 is raised and channel 2 is lowered, at different times. Class 0: one of both, or none."""
    x, y, truth = 0.5 * noise(rng, n, 50, 3), rng.integers(0, 2, n), nothing_planted(n, 50, 3)
    for i in range(n):
        places = rng.permutation(5)[:2] * 10 + rng.integers(0, 4, 2)
        both = (True, True) if y[i] else ((True, False), (False, True), (False, False))[rng.integers(3)]
        for here, start, channel, sign in zip(both, places, (0, 2), (1.0, -1.0), strict=True):
            if here:
                x[i, start : start + 6, channel] += 2.0 * sign
                truth[i, start : start + 6, channel] = y[i]
    return x, y, truth


def drift(rng: Generator, n: int) -> Drawn:
    """Channel 1 drifts away slowly for 24 steps, up or down: that is the class. Channel 0 drifts, too."""
    x, y, truth = 0.3 * noise(rng, n, 60, 3), rng.integers(0, 2, n), nothing_planted(n, 60, 3)
    slow = np.linspace(0, 1.6, 24)
    for i, starts in enumerate(rng.integers(0, 36, (n, 2))):
        for channel, start in enumerate(starts):
            up = y[i] if channel == 1 else rng.integers(2)
            x[i, start : start + 24, channel] += slow if up else -slow
            truth[i, start : start + 24, channel] = channel == 1
    return x, y, truth


def count(rng: Generator, n: int) -> Drawn:
    """Class 1: three to five spikes in channel 0. Class 0: fewer. Channel 1 has spikes at random."""
    x, y, truth = 0.4 * noise(rng, n, 40, 2), rng.integers(0, 2, n), nothing_planted(n, 40, 2)
    for i in range(n):
        at = rng.permutation(40)[: rng.integers(3, 6) if y[i] else rng.integers(0, 3)]
        x[i, at, 0] += 3.0
        truth[i, at, 0] = y[i]
        x[i, rng.permutation(40)[: rng.integers(0, 6)], 1] += 3.0
    return x, y, truth


FRESH: dict[str, tuple[partial[nn.Module], Draw, int]] = {
    "conjunction": (partial(Filters, 3, 2), conjunction, 200),
    "conjunction, memory": (partial(Memory, 3, 2), conjunction, 400),
    "drift": (partial(Filters, 3, 2, 9, greatest=False), drift, 150),
    "count of spikes": (partial(Filters, 2, 2, 3, greatest=False), count, 250),
}


@cache
def fresh(name: str) -> Nature:
    build, draw, steps = FRESH[name]
    model = trained(build, draw, steps)
    return Nature(model, *shown(model, draw))


@pytest.mark.parametrize("name", FRESH)
def test_the_ranking_is_at_most_a_little_below_the_best_reading_of_integrated_gradients(name: str) -> None:
    nature = fresh(name)
    found = quality(nature.explained(), nature.truth)
    readings = ig_readings(nature.model, nature.x.numpy(), "classification")
    best = max(float(np.nanmean(auprc(scores, nature.truth))) for scores in readings.values())
    assert found.ranking >= best - 0.06
    assert found.cells >= 0.5
    assert found.brier < 1
