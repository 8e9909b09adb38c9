"""Small sequence models of five families, with one answer a sequence or one at every step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

Family = Literal["gru", "lstm", "tcn", "transformer", "cnn"]
FAMILIES: tuple[Family, ...] = ("gru", "lstm", "tcn", "transformer", "cnn")
Pooling = Literal["mean", "max"]


class SequenceModel(nn.Module, ABC):
    """States at every step, and a linear head on them or on their summary.

    Args:
        per_step: give (B, T, outputs) instead of (B, outputs).
    """

    def __init__(self, hidden: int, outputs: int, per_step: bool) -> None:
        super().__init__()
        self.head = nn.Linear(hidden, outputs)
        self.per_step = per_step

    @abstractmethod
    def states(self, x: Tensor) -> Tensor:
        """(B, T, d) to (B, T, hidden)."""

    def summary(self, states: Tensor) -> Tensor:
        """(B, T, hidden) to (B, hidden): the last state."""
        return states[:, -1]

    def forward(self, x: Tensor) -> Tensor:
        states = self.states(x)
        out: Tensor = self.head(states if self.per_step else self.summary(states))
        return out


class RecurrentModel(SequenceModel):
    """One GRU or LSTM layer; the summary is its last state."""

    def __init__(self, recurrent: nn.GRU | nn.LSTM, outputs: int, per_step: bool) -> None:
        super().__init__(recurrent.hidden_size, outputs, per_step)
        self.recurrent = recurrent

    def states(self, x: Tensor) -> Tensor:
        states: Tensor = self.recurrent(x)[0]
        return states


class CausalBlock(nn.Module):
    """h + relu(dilated convolution over the past of h)."""

    def __init__(self, hidden: int, width: int, dilation: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(hidden, hidden, width, dilation=dilation)
        self.past = (width - 1) * dilation

    def forward(self, h: Tensor) -> Tensor:
        return h + torch.relu(self.convolution(nn.functional.pad(h, (self.past, 0))))


class TCNModel(SequenceModel):
    """Dilated causal convolutions; the summary is each filter's maximum over time."""

    def __init__(self, channels: int, hidden: int, outputs: int, per_step: bool) -> None:
        super().__init__(hidden, outputs, per_step)
        blocks = [CausalBlock(hidden, 3, dilation) for dilation in (1, 2, 4, 8)]
        self.body = nn.Sequential(nn.Conv1d(channels, hidden, 1), *blocks)

    def states(self, x: Tensor) -> Tensor:
        states: Tensor = self.body(x.transpose(1, 2)).transpose(1, 2)
        return states

    def summary(self, states: Tensor) -> Tensor:
        return states.amax(1)


class TransformerModel(SequenceModel):
    """An encoder over windows of three steps, with sine positions; the summary is the mean over time."""

    def __init__(self, channels: int, hidden: int, outputs: int, per_step: bool) -> None:
        super().__init__(hidden, outputs, per_step)
        self.embed = nn.Conv1d(channels, hidden, 3, padding=1)
        block = nn.TransformerEncoderLayer(hidden, 4, 2 * hidden, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.hidden = hidden

    def states(self, x: Tensor) -> Tensor:
        h = self.embed(x.transpose(1, 2)).transpose(1, 2)
        states: Tensor = self.encoder(h + sine_positions(x.shape[1], self.hidden, x.device))
        return states

    def summary(self, states: Tensor) -> Tensor:
        return states.mean(1)


class CentredBlock(nn.Module):
    """h + relu(dilated convolution of h on both sides)."""

    def __init__(self, hidden: int, width: int, dilation: int) -> None:
        super().__init__()
        reach = (width - 1) // 2 * dilation
        self.convolution = nn.Conv1d(hidden, hidden, width, dilation=dilation, padding=reach)

    def forward(self, h: Tensor) -> Tensor:
        return h + torch.relu(self.convolution(h))


class CNNModel(SequenceModel):
    """A residual convolutional network that sees 32 steps on either side; the summary is the mean or maximum over time.

    Features pass a ReLU before they are pooled, so that a mean counts occurrences.
    """

    def __init__(self, channels: int, hidden: int, outputs: int, per_step: bool, pooling: Pooling = "mean") -> None:
        super().__init__(hidden, outputs, per_step)
        blocks = [CentredBlock(hidden, 5, dilation) for dilation in (1, 2, 4, 8)]
        self.body = nn.Sequential(nn.Conv1d(channels, hidden, 5, padding=2), *blocks, nn.ReLU())
        self.pooling = pooling

    def states(self, x: Tensor) -> Tensor:
        states: Tensor = self.body(x.transpose(1, 2)).transpose(1, 2)
        return states

    def summary(self, states: Tensor) -> Tensor:
        return states.mean(1) if self.pooling == "mean" else states.amax(1)


def sine_positions(steps: int, width: int, device: torch.device) -> Tensor:
    """(steps, width): sines and cosines of geometrically spaced frequencies."""
    times = torch.arange(steps, device=device, dtype=torch.float32)[:, None]
    rates = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000.0) / width))
    return torch.cat([torch.sin(times * rates), torch.cos(times * rates)], dim=-1)[:, :width]


def build_model(
    family: str,
    channels: int,
    outputs: int = 2,
    hidden: int = 64,
    per_step: bool = False,
    pooling: Pooling = "mean",
) -> SequenceModel:
    """An untrained model that maps (B, T, channels) to (B, outputs), or (B, T, outputs) with `per_step`.

    `pooling` over time is the CNN's; the others have their own.
    """
    if family == "gru":
        return RecurrentModel(nn.GRU(channels, hidden, batch_first=True), outputs, per_step)
    if family == "lstm":
        return RecurrentModel(nn.LSTM(channels, hidden, batch_first=True), outputs, per_step)
    if family == "tcn":
        return TCNModel(channels, hidden, outputs, per_step)
    if family == "transformer":
        return TransformerModel(channels, hidden, outputs, per_step)
    if family == "cnn":
        return CNNModel(channels, hidden, outputs, per_step, pooling)
    raise ValueError(f"Expected a family of {', '.join(FAMILIES)}, but got {family!r}.")
