"""Regression tasks: white boxes that read known cells, the height of a ramp, events that raise or lower the value."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.experiments.arena.data import Generator, Part, apart, ar_noise


class WeightedSum(nn.Module):
    """f(x) = sum of w_ti x_ti over a few cells. Output (B,)."""

    weights: Tensor

    def __init__(self, weights: NDArray[np.float64]) -> None:
        super().__init__()
        self.register_buffer("weights", torch.from_numpy(weights.astype(np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weights).sum((1, 2))


class ProductOfMeans(nn.Module):
    """f(x) = (mean of one segment) x (mean of another segment). Output (B,)."""

    first: Tensor
    second: Tensor

    def __init__(self, first: NDArray[np.bool_], second: NDArray[np.bool_]) -> None:
        super().__init__()
        self.register_buffer("first", torch.from_numpy((first / first.sum()).astype(np.float32)))
        self.register_buffer("second", torch.from_numpy((second / second.sum()).astype(np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.first).sum((1, 2)) * (x * self.second).sum((1, 2))


def linear_weights(shared: Generator) -> NDArray[np.float64]:
    """(40, 5) weights of size 1 to 2 and either sign at 12 cells, else 0."""
    weights = np.zeros(200)
    weights[shared.permutation(200)[:12]] = shared.uniform(1, 2, 12) * shared.choice([-1.0, 1.0], 12)
    return weights.reshape(40, 5)


def linear(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """y = a weighted sum of 12 cells, the same for all sequences of a seed. Salient: those cells. T = 40, d = 5.

    The salient cells have values of size 1 to 2 and either sign, so that each of them matters; the others are noise.
    """
    weights = linear_weights(shared)
    x = rng.standard_normal((n, *weights.shape))
    truth = np.broadcast_to(weights != 0, x.shape)
    x = np.where(truth, rng.uniform(1, 2, x.shape) * rng.choice([-1.0, 1.0], x.shape), x)
    return Part(x.astype(np.float32), (x * weights).sum((1, 2)).astype(np.float32), truth.copy())


def product_segments(shared: Generator) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Two segments (40, 5) of 5 steps in two channels."""
    masks = np.zeros((2, 40, 5), dtype=np.bool_)
    for mask, channel in zip(masks, shared.permutation(5)[:2], strict=True):
        start = int(shared.integers(0, 36))
        mask[start : start + 5, channel] = True
    return masks[0], masks[1]


def product(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """y = (mean of a segment) x (mean of another), the same for all sequences of a seed. Salient: both segments.

    Each segment is raised or lowered by 2. With either at zero the other has no gradient.
    """
    first, second = product_segments(shared)
    x = 0.7 * ar_noise(rng, n, 40, 5)
    for mask in (first, second):
        x += mask * 2.0 * rng.choice([-1.0, 1.0], (n, 1, 1))
    truth = np.broadcast_to(first | second, x.shape).copy()
    y = x[:, first].mean(1) * x[:, second].mean(1)
    return Part(x.astype(np.float32), y.astype(np.float32), truth)


def ramp_height(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """y = height, -2 to 2, of a ramp of 12 steps in the channel that matters. Salient: the ramp. T = 60, d = 3.

    The other channels have ramps of their own. Explained are ramps of height 1 and more, either way.
    """
    steps, channels, length = 60, 3, 12
    relevant = int(shared.integers(channels))
    x, y = 0.15 * ar_noise(rng, n, steps, channels), rng.uniform(-2, 2, n)
    truth = np.zeros(x.shape, dtype=np.bool_)
    for i in range(n):
        for channel in range(channels):
            (window,) = apart(rng, steps, [length])
            height = y[i] if channel == relevant else rng.uniform(-2, 2)
            x[i, window, channel] += height * np.linspace(1 / length, 1, length)
            truth[i, window, channel] = channel == relevant
    return Part(x.astype(np.float32), y.astype(np.float32), truth, explained=np.abs(y) >= 1)


def both_signs(shared: Generator, rng: Generator, n: int, strength: float) -> Part:
    """y = a third of the sum of the heights of events, -4 to 4, in the three channels that matter. Salient: the events.

    T = 60, d = 5. Each channel has up to two events of 6 steps; those that lower the value are salient as well.
    """
    steps, channels, length = 60, 5, 6
    relevant = shared.permutation(channels)[:3]
    x, y = ar_noise(rng, n, steps, channels, 0.3), np.zeros(n)
    truth = np.zeros(x.shape, dtype=np.bool_)
    for i in range(n):
        for channel in range(channels):
            for window in apart(rng, steps, [length, length]):
                if rng.random() < 0.4:
                    continue
                height = rng.choice([-1, 1]) * rng.uniform(2, 4)
                x[i, window, channel] += height
                if channel in relevant:
                    truth[i, window, channel] = True
                    y[i] += height / 3
    return Part(x.astype(np.float32), y.astype(np.float32), truth)
