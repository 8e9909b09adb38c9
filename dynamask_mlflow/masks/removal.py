"""The deletion game of one answer: which cells, removed, turn it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.descent import spread_evenly
from dynamask_mlflow.masks.fitted import Tick
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.objective import time_regulariser
from dynamask_mlflow.masks.operators import Perturbation
from dynamask_mlflow.masks.scores import top_cells

_HANDFUL, _TENTH = 0.01, 0.1
_PATIENCE = 0.02
_AREAS = (0.05, 0.3)
_WEAK = 0.5


def with_remover(game: Game, grip: Tensor) -> Game:
    """The game whose first operator gives way to the second for instances whose answer survives the first."""
    if len(game.operators) < 2 or any(operator.random for operator in game.operators[:2]):
        return game
    first, second = game.prepared[:2]
    assert first is not None
    assert second is not None
    weak = grip[0] < _WEAK * grip[1]
    empty = torch.cat([torch.where(weak, game.empty[1], game.empty[0])[None], game.empty[1:]])
    return replace(game, prepared=(_either(weak[:, None, None], second, first), *game.prepared[1:]), empty=empty)


def _either(condition: Tensor, yes: Perturbation, no: Perturbation) -> Perturbation:
    def perturb(mask: Tensor) -> tuple[Tensor, Tensor]:
        (moved, slope), (other, other_slope) = yes(mask), no(mask)
        return torch.where(condition, moved, other), torch.where(condition, slope, other_slope)

    return perturb


def delete(
    game: Game, config: ExplainConfig, steps: int, start: Tensor, number: Tensor, tick: Tick
) -> tuple[Tensor, Tensor]:
    """Scores whose best cells, removed by the first operator, turn the answer, at every area at once.

    Fictitious play: each step removes the cells that have looked best so far, asks what every cell is worth there, and
    adds that to the average, later steps with more weight. Also: how much of the mask the second half left in place.
    """
    steps = config.steps or steps
    deletion = replace(game, deletion=True)
    exists = game.batch.exists
    scores = midway = start
    weights, (low, high) = 1.0, _AREAS
    for step in range(steps):
        if step == steps // 2:
            midway = scores
        mask = top_cells(scores, low * (high / low) ** spread_evenly(step), exists)
        gradient = deletion.gradient(mask, 0, step)
        if config.time_weight:
            gradient = gradient + config.time_weight * time_regulariser(mask, exists)[1] / number[:, None, None]
        weights += step + 1
        scores = scores.lerp(-gradient, (step + 1) / weights)
        tick()
    before, after = (top_cells(scores, _TENTH, exists) for scores in (midway, scores))
    same = torch.minimum(before, after).flatten(1).sum(1) / after.flatten(1).sum(1).clamp(min=1e-12)
    return scores, same


def turns_better(game: Game, one: Tensor, other: Tensor, share: float) -> Tensor:
    """(B,): whether the answer stands no firmer without the best `share` of the cells by one than by the other."""
    return _left(game, one, share) <= _left(game, other, share)


def led_by(game: Game, few: Tensor, many: Tensor) -> Tensor:
    """The scores `many`, but with the best cells by `few` at their head where these few turn the answer sooner.

    The play looks at masks of a twentieth of the cells and more; a handful may do. Not where that costs later on.
    """
    head = top_cells(few, _HANDFUL, game.batch.exists) > 0
    led = torch.where(head, few - few.flatten(1).amin(1)[:, None, None] + many.flatten(1).amax(1)[:, None, None], many)
    gain = _left(game, many, _HANDFUL) - _left(game, led, _HANDFUL)
    cost = _left(game, led, _TENTH) - _left(game, many, _TENTH)
    return torch.where(((gain > 0) & (cost <= _PATIENCE * gain))[:, None, None], led, many)


def _left(game: Game, scores: Tensor, share: float) -> Tensor:
    """(B,): how far the answer stands without the best cells."""
    return game.standing(1 - top_cells(scores, share, game.batch.exists), 0, 0)


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
