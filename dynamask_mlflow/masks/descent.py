"""Descent on scores: each step draws an area and an operator, plays the game with that mask, follows the gradient."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.objective import time_regulariser
from dynamask_mlflow.masks.scores import mask_at, score_gradient

HOT, COLD = 1.0, 0.05
_GOLDEN = 0.6180339887498949
_BETAS = (0.9, 0.999)


class Adam:
    """Adam with cosine decay. Its epsilon follows the gradient's own scale, so that rounding never drives a cell."""

    def __init__(self, scores: Tensor, learning_rate: float, steps: int) -> None:
        self.scores = scores
        self._rate, self._steps, self._count = learning_rate, steps, 0
        self._mean, self._square = torch.zeros_like(scores), torch.zeros_like(scores)

    def descend(self, gradient: Tensor) -> None:
        rate = self._rate * 0.5 * (1 + math.cos(math.pi * self._count / self._steps))
        self._count += 1
        self._mean.lerp_(gradient, 1 - _BETAS[0])
        self._square.lerp_(gradient.square(), 1 - _BETAS[1])
        root = (self._square / (1 - _BETAS[1] ** self._count)).sqrt_()
        epsilon = 1e-3 * root.flatten(1).mean(1)[:, None, None] + 1e-30
        self.scores = self.scores - rate / (1 - _BETAS[0] ** self._count) * self._mean / (root + epsilon)


def spread_evenly(step: int) -> float:
    """In [0, 1): the golden ratio's sequence, which fills the interval evenly however many steps there are."""
    return math.modf(0.5 + step * _GOLDEN)[0]


def game_gradient(
    game: Game, scores: Tensor, area: Tensor, index: int, step: int, steps: int, time_weight: float, number: Tensor
) -> Tensor:
    """dL/dZ of one step's game, with a temperature that falls from hot to cold over the steps."""
    temperature = HOT * (COLD / HOT) ** (step / steps)
    exists = game.batch.exists
    mask = mask_at(scores, area, temperature, exists)
    gradient = game.gradient(mask, index, step)
    if time_weight > 0:
        gradient = gradient + time_weight * time_regulariser(mask, exists)[1] / number[:, None, None]
    return score_gradient(gradient, mask, temperature)
