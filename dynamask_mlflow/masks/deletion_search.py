"""Which cells, removed together, turn the model's own answer: the ordering behind CE and ACC."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.descent import spread_evenly
from dynamask_mlflow.masks.fitted import Tick
from dynamask_mlflow.masks.ranking import top_cells

STEPS, FAST_STEPS = 14, 5
AREAS = (0.05, 0.3)
# The search looks at masks of a twentieth of the cells and more; a handful by another ordering may do as well at first.
HANDFUL, TENTH = 0.01, 0.1
PATIENCE = 0.02


def answer_departure(departure: Departure) -> tuple[Departure, Tensor]:
    """The departure counted for the model's own answer (below one half, against the risk), and its operator (B,).

    Cells are removed by the first operator that is usable.
    """
    alone, operator = departure.by_first_usable()
    turn = departure.target.for_answer * departure.direction
    answer = replace(
        alone,
        direction=departure.target.for_answer,
        score=turn * departure.score,
        baseline_scores=turn * alone.baseline_scores,
    )
    return answer, operator


def deletion_scores(answer: Departure, start: Tensor, steps: int, tick: Tick) -> Tensor:
    """(B, T, d): scores whose best cells, removed, lower the answer's score most, at every area at once.

    Fictitious play: each step removes the cells that have scored best so far, takes the gradient of every cell there,
    and adds it to the average, later steps with more weight.
    """
    exists = answer.batch.exists
    scores, weights = start, 1.0
    low, high = AREAS
    for step in range(steps):
        mask = top_cells(scores, low * (high / low) ** spread_evenly(step), exists)
        weights += step + 1
        scores = scores.lerp(answer.gradient_under(1 - mask), (step + 1) / weights)
        tick()
    return scores


def led_by(answer: Departure, few: Tensor, many: Tensor) -> Tensor:
    """The scores `many`, with the best cells by `few` at their head where these lower the score sooner."""
    head = top_cells(few, HANDFUL, answer.batch.exists) > 0
    led = torch.where(head, few - _least(few) + _most(many), many)
    exists = answer.batch.exists
    removed = [top_cells(scores, share, exists) for share in (HANDFUL, TENTH) for scores in (many, led)]
    left = answer.scores_under(1 - mask for mask in removed)
    gain, cost = left[0] - left[1], left[3] - left[2]
    return torch.where(((gain > 0) & (cost <= PATIENCE * gain))[:, None, None], led, many)


def _least(scores: Tensor) -> Tensor:
    return scores.flatten(1).amin(1)[:, None, None]


def _most(scores: Tensor) -> Tensor:
    return scores.flatten(1).amax(1)[:, None, None]


def in_the_order_of(values: Tensor, scores: Tensor, exists: Tensor | None) -> Tensor:
    """The values of each instance, handed out anew so that they follow the scores; zeros stay where they are."""
    z, flat = scores.flatten(1), values.flatten(1)
    if exists is not None:
        missing = ~exists.flatten(1)
        z, flat = z.masked_fill(missing, float("-inf")), flat.masked_fill(missing, float("-inf"))
    place = z.argsort(dim=1, stable=True).argsort(1)
    ordered = flat.sort(1).values.gather(1, place).view_as(values)
    unread = values == 0
    return torch.where(unread if exists is None else unread | ~exists, torch.zeros_like(ordered), ordered)
