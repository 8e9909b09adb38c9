"""The three workloads whose cost is compared. Weights are random: the time does not depend on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Task:
    """A model, instances x (N, T, d), and how the paper fits masks to them.

    Attributes:
        areas: the paper's grid of areas.
        steps: its number of steps.
        blur: sigma_max of the Gaussian blur, or None for the fade to a moving average over the whole series.
        deletion: whether the mask shows what hurts most when removed.
    """

    name: str
    model: nn.Module
    x: Tensor
    task: str
    areas: tuple[float, ...]
    steps: int = 1000
    blur: float | None = 1.0
    deletion: bool = False
    size_weight: float = 0.1
    dilation: float = 1000.0
    time_weight: float = 0.0


class Squares(nn.Module):
    """The white box of the rare experiments."""

    salient: Tensor

    def __init__(self) -> None:
        super().__init__()
        salient = torch.zeros(50, 50)
        salient[13:38, ::10] = 1
        self.register_buffer("salient", salient)

    def forward(self, x: Tensor) -> Tensor:
        return (x.square() * self.salient).sum(-1)


class Recurrent(nn.Module):
    """A GRU of 200 cells with two classes, at every step or at the end."""

    def __init__(self, channels: int, per_step: bool) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, 200, batch_first=True)
        self.head = nn.Linear(200, 2)
        self.per_step = per_step

    def forward(self, x: Tensor) -> Tensor:
        states = self.gru(x)[0]
        out: Tensor = self.head(states if self.per_step else states[:, -1])
        return out


def rare(n: int = 1) -> Task:
    torch.manual_seed(0)
    areas = tuple((k + 1) / 1000 for k in range(50))
    return Task("rare", Squares(), torch.randn(n, 50, 50), "regression", areas, size_weight=1.0)


def state(n: int = 1, steps: int = 200) -> Task:
    torch.manual_seed(0)
    areas = tuple(0.25 + 0.01 * k for k in range(10))
    model = Recurrent(3, per_step=True).eval()
    x = torch.randn(n, steps, 3)
    return Task("state", model, x, "classification", areas, dilation=100.0, time_weight=1.0)


def mimic_shaped(n: int = 1) -> Task:
    torch.manual_seed(0)
    model = Recurrent(31, per_step=False).eval()
    x = torch.randn(n, 48, 31)
    return Task("mimic-shaped", model, x, "classification", (0.1,), blur=None, deletion=True)


TASKS: tuple[Callable[..., Task], ...] = (rare, state, mimic_shaped)
