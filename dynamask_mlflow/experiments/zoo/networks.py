"""The networks of the zoo: as small as they can be and still learn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH = 24


class Gru(nn.Module):
    """A GRU, the mean of its states, two logits."""

    def __init__(self, channels: int, outputs: int = 2) -> None:
        super().__init__()
        self.recurrent = nn.GRU(channels, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.recurrent(x)
        out: Tensor = self.head(states.mean(1))
        return out


class Tcn(nn.Module):
    """Dilated convolutions along time."""

    def __init__(self, channels: int, outputs: int = 2) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, 3, padding=2, dilation=2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, 3, padding=4, dilation=4),
            nn.ReLU(),
        )
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x.transpose(1, 2)).mean(2))
        return out


class Inception(nn.Module):
    """Three kernel lengths side by side, twice, as InceptionTime has them."""

    def __init__(self, channels: int, outputs: int = 2) -> None:
        super().__init__()
        self.first = nn.ModuleList([nn.Conv1d(channels, 8, size, padding=size // 2) for size in (3, 7, 11)])
        self.second = nn.ModuleList([nn.Conv1d(24, 8, size, padding=size // 2) for size in (3, 7, 11)])
        self.head = nn.Linear(24, outputs)

    def forward(self, x: Tensor) -> Tensor:
        z = x.transpose(1, 2)
        for layer in (self.first, self.second):
            z = torch.relu(torch.cat([branch(z) for branch in layer], 1))
        out: Tensor = self.head(z.mean(2))
        return out
