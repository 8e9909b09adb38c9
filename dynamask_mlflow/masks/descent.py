"""Descent on scores: each step draws an area and an operator, applies that mask, follows the gradient of the error."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dynamask_mlflow.masks.objective import time_regulariser
from dynamask_mlflow.masks.perturbation_objective import PerturbationObjective
from dynamask_mlflow.masks.soft_masks import mask_at, score_gradient

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


def temperature_at(step: int, steps: int) -> float:
    """Falls from hot to cold over the steps of a fit."""
    return float(HOT * (COLD / HOT) ** (step / steps))


def starting_scores(attributions: Tensor) -> Tensor:
    """Z0 = sign(a) ln(1 + |a| / mean |a|) / 2: on the scale of the temperature, zero at zero."""
    scale = attributions.flatten(1).abs().mean(1)[:, None, None] + 1e-30
    return 0.5 * torch.sign(attributions) * torch.log1p(attributions.abs() / scale)


def objective_gradient(
    objective: PerturbationObjective,
    scores: Tensor,
    area: Tensor,
    index: int,
    progress: tuple[int, int],
    time_weight: float = 0.0,
) -> Tensor:
    """dL/dZ of one step; `progress` is the step and how many there are."""
    temperature = temperature_at(*progress)
    exists = objective.batch.exists
    mask = mask_at(scores, area, temperature, exists)
    gradient = objective.gradient(mask, index, progress[0])
    if time_weight > 0:
        number = objective.batch.number_of_cells()[:, None, None]
        gradient = gradient + time_weight * time_regulariser(mask, exists)[1] / number
    return score_gradient(gradient, mask, temperature)
