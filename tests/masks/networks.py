"""Small models with random weights, for the engine's tests."""

import torch
from torch import Tensor, nn


class Recurrent(nn.Module):
    """A GRU with random weights: one answer a sequence, or one a step."""

    def __init__(self, channels: int = 4, outputs: int = 2, per_step: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.gru = nn.GRU(channels, 12, num_layers=2 if dropout else 1, batch_first=True, dropout=dropout)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(12, outputs)
        self.per_step = per_step

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.gru(x)
        return self.head(self.drop(hidden if self.per_step else hidden[:, -1]))


class LongMemory(nn.Module):
    """An LSTM that answers from the mean of its states."""

    def __init__(self, channels: int = 4, outputs: int = 2) -> None:
        super().__init__()
        self.lstm = nn.LSTM(channels, 12, batch_first=True)
        self.head = nn.Linear(12, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0].mean(1))


class Attention(nn.Module):
    """A Transformer of one layer, without dropout."""

    def __init__(self, channels: int = 4, outputs: int = 2) -> None:
        super().__init__()
        self.inner = nn.Linear(channels, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.inner(x)).mean(1))


class Convolutional(nn.Module):
    """Convolution and batch norm, for statistics that must not move."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(channels, 8, 3, padding=1)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.convolution(x.transpose(1, 2))).relu().mean(2))


def with_seed(build: type[nn.Module], *args: object, seed: int = 0) -> nn.Module:
    """A module whose random weights are always the same."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(*args).eval()


def sequences(number: int = 3, steps: int = 10, channels: int = 4, seed: int = 0) -> Tensor:
    return torch.randn(number, steps, channels, generator=torch.Generator().manual_seed(seed))
