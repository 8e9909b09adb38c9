"""Small networks and data whose answer is known: the class is the sign of channel 1 in the last steps."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

STEPS, CHANNELS = 10, 4
NAMES = ["HeartRate", "Lactate", "SpO2", "Temp"]


class GRUClassifier(nn.Module):
    def __init__(self, channels: int = CHANNELS, hidden: int = 12, classes: int = 2) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, hidden, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.dropout(self.gru(x)[0][:, -1]))


class StepwiseClassifier(GRUClassifier):
    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(x)[0])


class Regressor(nn.Module):
    """The sum of channel 1 over the last three steps: what a mask must find is known exactly."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.zeros(STEPS, CHANNELS)
        weight[-3:, 1] = 1
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight).sum(dim=(1, 2))[:, None]


class StepwiseRegressor(Regressor):
    def forward(self, x: Tensor) -> Tensor:
        return (x * self.weight[-1]).sum(dim=2)


def sequences(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(n, STEPS, CHANNELS)).astype(np.float32)
    return x, (x[:, -3:, 1].mean(axis=1) > 0).astype(np.int64)


def trained_classifier() -> GRUClassifier:
    torch.manual_seed(0)
    x, y = (torch.as_tensor(values) for values in sequences(256, seed=1))
    network = GRUClassifier()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(60):
        loss = nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()
