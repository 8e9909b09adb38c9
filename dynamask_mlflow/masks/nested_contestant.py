"""A nested fit as a contestant: one score a cell, fitted by descent, holds the mask of every size (section 2.3)."""

from __future__ import annotations

import torch
from torch import Tensor

from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.descent import Adam, spread_evenly, starting_scores, temperature_at
from dynamask_mlflow.masks.fitted import Tick
from dynamask_mlflow.masks.soft_masks import mask_at, score_gradient

STEPS = 24
LEARNING_RATE = 0.3
AREAS = (0.003, 0.4)


def nested_scores(departures: list[Departure], start: Tensor, tick: Tick) -> Tensor:
    """Scores (B, T, d) whose first cells keep the departure, and remove it, at every area.

    Each step draws an area, a baseline, and one of two questions: keep the mask's cells alone, or remove them.

    Args:
        departures: under each of the baselines that take turns.
        start: (B, T, d) scores >= 0 to start from.
    """
    number = departures[0].batch.number_of_cells()
    exists = departures[0].batch.exists
    state = Adam(starting_scores(start), LEARNING_RATE, STEPS)
    low, high = AREAS
    for step in range(STEPS):
        temperature = temperature_at(step, STEPS)
        area = torch.full_like(number, low * (high / low) ** spread_evenly(step))
        mask = mask_at(state.scores, torch.maximum(area, 1.5 / number), temperature, exists)
        departure = departures[step % len(departures)]
        removing = (step // len(departures)) % 2 == 1
        gradient = departure.gradient_under(1 - mask if removing else mask)
        gradient = -gradient / departure.reach[:, None, None]
        state.descend(score_gradient(gradient, mask, temperature))
        tick()
    return state.scores
