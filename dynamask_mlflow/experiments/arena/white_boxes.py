"""Models of the arena that need no training: they read the planted cells by construction."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.experiments.arena.data import Generator
from dynamask_mlflow.experiments.arena.events import motif_pattern
from dynamask_mlflow.experiments.arena.values import ProductOfMeans, WeightedSum, linear_weights, product_segments


class MatchedFilter(nn.Module):
    """Logits (B, 2) from the best match of a motif or of its mirror image in one channel: no other cell has a say.

    A match is the correlation with the motif, in units of its own energy: 1 where it is, without noise.
    """

    motif: Tensor

    def __init__(self, motif: NDArray[np.float64], channel: int) -> None:
        super().__init__()
        normed = motif / np.square(motif).sum()
        self.register_buffer("motif", torch.from_numpy(normed.astype(np.float32))[None, None])
        self.channel = channel

    def forward(self, x: Tensor) -> Tensor:
        match = nn.functional.conv1d(x[:, None, :, self.channel], self.motif)[:, 0]
        logit = 3 * match.gather(1, match.abs().argmax(1, keepdim=True))[:, 0]
        return torch.stack([-logit, logit], -1)


def matched_filter(channels: int, length: int, shared: Generator) -> nn.Module:
    return MatchedFilter(motif_pattern(length, 11), int(shared.integers(channels)))


def weighted_sum(shared: Generator) -> nn.Module:
    return WeightedSum(linear_weights(shared))


def product_of_means(shared: Generator) -> nn.Module:
    return ProductOfMeans(*product_segments(shared))
