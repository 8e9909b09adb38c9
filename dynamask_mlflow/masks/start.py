"""Where the nested fit begins: gradients averaged along the way from the empty to the full mask."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dynamask_mlflow.masks.game import Game

_PATH_STEP = 5001


def path_gradients(game: Game, levels: Sequence[int]) -> tuple[list[Tensor], Tensor]:
    """For each operator the mean over its levels alpha of the worth of each cell at M = alpha, and of all |worth|.

    For one linear fade and many levels the first is Integrated Gradients with that fade's baseline.
    """
    worths, influence = [], torch.zeros_like(game.batch.x)
    for index, number in zip(range(len(game.operators)), levels, strict=True):
        worth = torch.zeros_like(influence)
        for level in range(number):
            one = game.worth((level + 0.5) / number, index, _PATH_STEP + level)
            worth += one / number
            influence += one.abs() / (number * len(game.operators))
        worths.append(worth)
    return worths, influence


def starting_scores(worth: Tensor) -> Tensor:
    """Z0 = sign(g) ln(1 + |g| / mean |g|) / 2: in step with the temperature, kind to heavy tails, zero at zero."""
    scale = worth.flatten(1).abs().mean(1)[:, None, None] + 1e-30
    return 0.5 * torch.sign(worth) * torch.log1p(worth.abs() / scale)


def without_influence(influence: Tensor) -> Tensor:
    """Cells whose gradient vanishes all along the way, beside the average cell's: the model does not read them."""
    return influence <= 1e-3 * influence.flatten(1).mean(1)[:, None, None]
