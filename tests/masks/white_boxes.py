"""Models that read known cells by construction, with sequences made for them."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from natures import Nature
from torch import Tensor

STEPS, CHANNELS = 32, 4
SEGMENT = slice(12, 20)


def gaussian(number: int, steps: int = STEPS, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    return torch.randn(number, steps, channels, generator=torch.Generator().manual_seed(seed))


def two_classes(logit: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(logit), logit], -1)


def cells(x: Tensor, times: slice, channel: int) -> np.ndarray:
    truth = np.zeros(tuple(x.shape), dtype=bool)
    truth[:, times, channel] = True
    return truth


def latched(x: Tensor) -> Tensor:
    """Says yes once channel 2 has been high on the segment, and then no longer feels single cells."""
    return two_classes(4 * torch.sigmoid(200 * (x[:, SEGMENT, 2].mean(1) - 0.5)) - 2)


def latched_beside_faint_cells(x: Tensor) -> Tensor:
    """The same, and every cell of the other channels moves the answer a little: gradients feel nothing else."""
    return latched(x) + two_classes(0.05 * x[:, :, [0, 1, 3]].sum((1, 2)))


def high_segment(number: int = 6, seed: int = 0) -> Tensor:
    x = 0.3 * gaussian(number, seed=seed)
    x[:, SEGMENT, 2] += 3
    return x


def segment() -> Nature:
    x = high_segment()
    return Nature(latched_beside_faint_cells, x, cells(x, SEGMENT, 2))


def count_of_spikes(x: Tensor) -> Tensor:
    """One more for every cell of channels 0 and 1 above 2."""
    return two_classes(F.relu(x[:, :, :2] - 2).sum((1, 2)) - 3)


def spikes(number: int = 6, steps: int = STEPS) -> Nature:
    """Five single cells at random."""
    rng = np.random.default_rng(0)
    x = 0.4 * gaussian(number, steps)
    truth = np.zeros(tuple(x.shape), dtype=bool)
    for row in truth:
        row[rng.permutation(steps)[:5], rng.integers(0, 2, 5)] = True
    x[torch.from_numpy(truth)] = 4.0
    return Nature(count_of_spikes, x, truth)


def shared_evidence() -> Nature:
    """Class 0 has what it shares with class 1 (channel 0), and something of its own (channel 1)."""

    def four_classes(x: Tensor) -> Tensor:
        common, own = x[:, SEGMENT, 0].sum(1), x[:, SEGMENT, 1].sum(1)
        return torch.stack([common + own, common, torch.zeros_like(own), torch.zeros_like(own)], 1)

    x = 0.3 * gaussian(6)
    x[:, SEGMENT, :2] += 2
    return Nature(four_classes, x, cells(x, SEGMENT, 0) | cells(x, SEGMENT, 1))


def off_zero() -> Nature:
    """Channels lie at .3 with a small spread; an excursion of channel 2 is what counts."""

    def excursions(x: Tensor) -> Tensor:
        return two_classes(8 * (x - 0.3).square().sum((1, 2)) - 4)

    x = 0.3 + 0.05 * gaussian(6)
    x[:, SEGMENT, 2] += torch.linspace(-0.6, 0.6, 8)
    return Nature(excursions, x, cells(x, SEGMENT, 2))


def plateau() -> Nature:
    """Half of channel 2 is high, so that its mean is high as well and leaves the answer as it is.

    Channels 0 and 3 move the answer to and fro, and come to nothing together.
    """
    high = slice(8, 22)

    def level(x: Tensor) -> Tensor:
        on = torch.tanh(2.5 * x[:, high, 2].mean(1))
        return two_classes(4 * on - 2 + 0.4 * on * x[:, :, [0, 3]].sum((1, 2)))

    x = gaussian(6, seed=1)
    x[:, :, 2] *= 0.3
    x[:, high, 2] += 3
    x[:, :, [0, 3]] -= x[:, :, [0, 3]].mean(1, keepdim=True)
    return Nature(level, x, cells(x, high, 2))


def constant_level() -> Nature:
    """A level that never changes, which zero takes away and the mean over time does not.

    Channels 0 and 3 move the answer to and fro, and come to nothing together: all that the mean over time finds.
    """
    read = slice(8, 22)

    def level(x: Tensor) -> Tensor:
        return two_classes(2 * x[:, read, 2].mean(1) - 2 + 0.2 * x[:, :, [0, 3]].sum((1, 2)))

    x = gaussian(6, seed=1)
    x[:, :, 2] = 3 + 0.1 * x[:, :, 2]
    x[:, :, [0, 3]] -= x[:, :, [0, 3]].mean(1, keepdim=True)
    return Nature(level, x, cells(x, read, 2), {"operators": ["time_mean", "zero"]})


def both_signs() -> Nature:
    """A value that two events raise and one lowers. The model also reads a little of every other cell."""

    def value(x: Tensor) -> Tensor:
        heard = torch.sign(x) * torch.relu(x.abs() - 1.5) + 0.15 * torch.tanh(x)
        return heard[:, :, 1].sum(1) + 0.1 * x[:, :, 3].sum(1)

    x = 0.7 * gaussian(6, seed=3)
    truth = np.zeros(x.shape, dtype=bool)
    for start, height in ((3, 2.5), (11, -2.5), (20, 3.0)):
        x[:, start : start + 4, 1] += height
        truth[:, start : start + 4, 1] = True
    return Nature(value, x, truth, {"task": "regression"})


def least_variance(x: Tensor, width: int = 12) -> Tensor:
    """(B,): the least variance of channel 1 within a window."""
    series = x[:, None, :, 1]
    mean = F.avg_pool1d(series, width, 1)
    variance = F.avg_pool1d(series.square(), width, 1) - mean.square()
    return variance[:, 0].amin(1)


def quiet(x: Tensor) -> Tensor:
    """Class 1 where channel 1 has a window of small variance."""
    return two_classes(4 - 80 * least_variance(x))


def quiet_window(number: int = 6) -> Nature:
    x = gaussian(number, 60, 3, seed=2)
    truth = np.zeros(tuple(x.shape), dtype=bool)
    for row in range(number):
        truth[row, 4 + 6 * row : 18 + 6 * row, 1] = True
    x[torch.from_numpy(truth)] *= 0.05
    return Nature(quiet, x, truth)


def danger(x: Tensor) -> Tensor:
    """A risk (B,) of .04 whose logit rises where channel 0 or 1 falls below -1, and falls a little with channel 2."""
    return -3.2 + 0.25 * F.relu(-1 - x[:, :, :2]).sum((1, 2)) - 0.1 * x[:, :, 2].sum(1)


def risk_below_one_half() -> Nature:
    """One deterioration: a risk of about .2 to .4."""
    x = 0.4 * gaussian(6, seed=3)
    truth = np.zeros(tuple(x.shape), dtype=bool)
    for row in range(len(x)):
        truth[row, 4 * row : 4 * row + 6, row % 2] = True
    x[torch.from_numpy(truth)] = -2.4
    return Nature(danger, x, truth)


def faint_cells() -> Nature:
    """A value at every step: squares of few cells, and faintly those of all others."""
    rng = np.random.default_rng(0)
    x = gaussian(6, 40, 8)
    truth = np.zeros(tuple(x.shape), dtype=bool)
    truth[:, rng.permutation(np.arange(8, 32))[:4], 2:6] = True
    weight = torch.from_numpy(np.where(truth[0], 1.0, 0.05)).float()
    return Nature(lambda z: (z.square() * weight).sum(-1), x, truth, {"task": "regression"})


def classes_at_every_step() -> Nature:
    """Class 1 while channel 0 is high. Changes of channel 1 move the logits up and down, and never the class."""

    def level(x: Tensor) -> Tensor:
        recent = F.avg_pool1d(F.pad(x[:, None, :, 0], (5, 0)), 6, 1)[:, 0]
        change = F.pad(x[:, 1:, 1] - x[:, :-1, 1], (1, 0))
        return two_classes(8 * torch.tanh(2 * (recent - 1)) + 5 * change)

    x = 0.4 * gaussian(6, 40, 3)
    x[:, :, 1] = 0.7 * torch.tanh(3 * x[:, :, 1])
    truth = np.zeros(tuple(x.shape), dtype=bool)
    for row in range(len(x)):
        truth[row, 8 + 2 * row : 18 + 2 * row, 0] = True
    x[torch.from_numpy(truth)] += 2.5
    return Nature(level, x, truth)
