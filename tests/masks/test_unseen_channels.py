"""Channels that move the answer without a gradient are told, and no others."""

import logging

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamask_mlflow import explain

LOGGER = "dynamask_mlflow.masks.unseen_channels"


class Coded(nn.Module):
    """Channel 1 holds codes, of which 3 raises the answer; channel 2 is not read."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 1)
        self.table.weight.data = torch.tensor([[0.0], [0.0], [0.0], [2.0]])

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.table(x[..., 1].long())[..., 0].sum(1) + x[..., 0].sum(1)
        return found


def coded(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 10, 3)).astype(np.float32)
    x[:, :, 1] = rng.integers(0, 4, (n, 10))
    return x


@pytest.mark.parametrize("n", [1, 5])
def test_a_channel_of_codes_inside_x_is_named_with_the_way_out(n: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, LOGGER):
        masks = explain(Coded(), coded(n), task="regression", progress=False)
    (line,) = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert "channel 1 of x" in line
    assert "method='forward'" in line
    assert not masks.masks[:, :, 1].any()


def test_nothing_is_said_of_channels_that_do_not_move_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    x = coded(5)
    with caplog.at_level(logging.WARNING, LOGGER):
        explain(lambda x: x[..., 0].sum(1), x, task="regression", progress=False)
        explain(Coded(), x, task="regression", method="forward", progress=False)
        x[:, :, 1] = 1  # one code throughout: nothing in x tells what others would do
        explain(Coded(), x, task="regression", progress=False)
    assert not [record for record in caplog.records if record.name == LOGGER]
