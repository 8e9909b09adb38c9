"""What may go wrong in a hospital or with a model, made on purpose."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow.data.dataset import StayDataset

Change = Callable[[StayDataset, np.random.Generator], StayDataset]


def other_unit(channel: str, factor: float, offset: float = 0.0, share: float = 1.0) -> Change:
    """v -> factor v + offset in a share of the stays, in the units of the feature set."""

    def change(stays: StayDataset, rng: np.random.Generator) -> StayDataset:
        place, stats = stays.channel_names.index(channel), stays.preprocessing
        mean, std = stats.mean[place], stats.std[place]
        raw = stays.x[:, :, place] * std + mean
        seen = np.maximum.accumulate(stays.observed[:, :, place], axis=1)  # what was never measured stays imputed
        some = rng.random(len(stays)) < share
        x = stays.x.copy()
        x[:, :, place] = np.where(seen & some[:, None], (factor * raw + offset - mean) / std, x[:, :, place])
        return replace(stays, x=x)

    return change


def missing(channel: str, share: float) -> Change:
    """A share of the stays no longer has the channel at all."""

    def change(stays: StayDataset, rng: np.random.Generator) -> StayDataset:
        place, stats = stays.channel_names.index(channel), stays.preprocessing
        some = rng.random(len(stays)) < share
        x, observed = stays.x.copy(), stays.observed.copy()
        x[some, :, place] = (stats.default[place] - stats.mean[place]) / stats.std[place]
        observed[some, :, place] = False
        return replace(stays, x=x, observed=observed)

    return change


def shifted(channel: str, size: float) -> Change:
    """One channel moves by so many standard deviations."""

    def change(stays: StayDataset, rng: np.random.Generator) -> StayDataset:
        x = stays.x.copy()
        x[:, :, stays.channel_names.index(channel)] += size
        return replace(stays, x=x)

    return change


def delayed(channel: str, steps: int) -> Change:
    """One channel arrives so many steps late; before that it is as if it had never been measured."""

    def change(stays: StayDataset, rng: np.random.Generator) -> StayDataset:
        place, stats = stays.channel_names.index(channel), stays.preprocessing
        x, observed = stays.x.copy(), stays.observed.copy()
        x[:, steps:, place], observed[:, steps:, place] = stays.x[:, :-steps, place], stays.observed[:, :-steps, place]
        x[:, :steps, place] = (stats.default[place] - stats.mean[place]) / stats.std[place]
        observed[:, :steps, place] = False
        return replace(stays, x=x, observed=observed)

    return change


def last_bits(stays: StayDataset, rng: np.random.Generator) -> StayDataset:
    """Every value goes to one of its neighbours among the numbers that exist."""
    limits = np.where(rng.random(stays.x.shape) < 0.5, np.float32(np.inf), np.float32(-np.inf))
    return replace(stays, x=np.nextafter(stays.x, limits).astype(np.float32))


class Blind(nn.Module):
    """A network that does not see one channel."""

    def __init__(self, network: nn.Module, channel: int) -> None:
        super().__init__()
        self.network, self.channel = network, channel

    def forward(self, x: Tensor) -> Tensor:
        keep = torch.ones(x.shape[-1], device=x.device)
        keep[self.channel] = 0
        logits: Tensor = self.network(x * keep)
        return logits


class Swapped(nn.Module):
    """A network whose inputs were wired up with two channels exchanged."""

    def __init__(self, network: nn.Module, first: int, second: int) -> None:
        super().__init__()
        self.network, self.pair = network, (first, second)

    def forward(self, x: Tensor) -> Tensor:
        order = list(range(x.shape[-1]))
        first, second = self.pair
        order[first], order[second] = second, first
        logits: Tensor = self.network(x[..., order])
        return logits


class Coarse(nn.Module):
    """The same weights on a runtime that multiplies in bfloat16."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            logits: Tensor = self.network(x)
        return logits.float()


def rounded(network: nn.Module) -> nn.Module:
    """A copy whose weights were stored in bfloat16."""
    other = copy.deepcopy(network)
    with torch.no_grad():
        for weights in other.parameters():
            weights.copy_(weights.bfloat16().float())
    return other
