"""A short training loop for networks that take several inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow.experiments.training import seeded, shuffled_batches

Loss = Callable[[Tensor, Tensor], Tensor]
Answer = Callable[[nn.Module, Mapping[str, Tensor]], Tensor]
"""Asks a network about one batch of inputs by name."""


def train_network(
    build: Callable[[], nn.Module],
    inputs: Mapping[str, np.ndarray],
    y: np.ndarray,
    *,
    answer: Answer = lambda network, batch: network(**batch),
    loss: Loss = nn.functional.cross_entropy,
    epochs: int = 15,
    rate: float = 5e-3,
) -> nn.Module:
    """Build and train a network on inputs name -> (N, ...) from fixed seeds; returned in evaluation mode."""
    given = {name: torch.as_tensor(values) for name, values in inputs.items()}
    wanted = torch.as_tensor(y)
    with seeded(0):
        network = build()
        optimiser = torch.optim.Adam(network.parameters(), lr=rate)
        network.train()
        for _ in range(epochs):
            for rows in shuffled_batches(len(wanted), 64):
                output = answer(network, {name: values[rows] for name, values in given.items()})
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss(output, wanted[rows]))
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimiser.step()
    return network.eval()
