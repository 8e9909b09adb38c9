"""The paper's black box: one layer of GRU cells, the last hidden state, a linear read-out."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GRUClassifier(nn.Module):
    """Sequences (B, T, d) to logits (B, classes).

    Dropout acts on the last hidden state and, for whole channels at once, on the input: 0 is the mean of a
    standardised channel, so that a dropped channel is an average one. Both are off in evaluation mode.
    """

    def __init__(
        self,
        channels: int,
        units: int = 200,
        classes: int = 2,
        dropout: float = 0.0,
        channel_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.channel_dropout = channel_dropout
        self.gru = nn.GRU(channels, units, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.readout = nn.Linear(units, classes)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.channel_dropout:
            kept = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= self.channel_dropout
            x = x * kept
        hidden, _ = self.gru(x)
        logits: Tensor = self.readout(self.dropout(hidden[:, -1]))
        return logits
