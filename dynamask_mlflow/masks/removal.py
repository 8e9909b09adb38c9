"""The deletion game of one answer: which cells, removed, turn it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.descent import Adam, game_gradient, spread_evenly
from dynamask_mlflow.masks.fitted import Tick
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.operators import Perturbation
from dynamask_mlflow.masks.scores import Order

_LEARNING_RATE = 1.0
_TRIAL = 0.1
# Areas of the first half of the descent, and of the second.
_AREAS = ((0.01, 0.4), (0.03, 0.25))
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
    game: Game, config: ExplainConfig, steps: int, starts: Sequence[Tensor], number: Tensor, tick: Tick
) -> tuple[Tensor, Tensor]:
    """Scores whose best cells, removed by the first operator, turn the answer, at every area at once.

    Starts from whichever scores already do it better. Also: how much of the mask the second half left in place.
    """
    steps = config.steps or steps
    deletion = replace(game, deletion=True)
    exists = game.batch.exists

    def left(scores: Tensor) -> Tensor:
        mask = Order.of(scores, exists).mask(torch.full_like(number, _TRIAL))
        return game.standing(1 - mask, 0, 0)

    better = left(starts[1]) < left(starts[0])
    scores = torch.where(better[:, None, None], starts[1], starts[0])
    state = Adam(scores, config.learning_rate or _LEARNING_RATE, steps)
    midway = state.scores
    for step in range(steps):
        if step == steps // 2:
            midway = state.scores
        low, high = _AREAS[2 * step >= steps]
        share = low * (high / low) ** spread_evenly(step)
        area = torch.maximum(torch.full_like(number, share), 1 / number)
        state.descend(game_gradient(deletion, state.scores, area, 0, step, steps, config.time_weight or 0.0, number))
        tick()
    tenth = torch.full_like(number, 0.1)
    before, after = (Order.of(scores, exists).mask(tenth) for scores in (midway, state.scores))
    same = torch.minimum(before, after).flatten(1).sum(1) / after.flatten(1).sum(1).clamp(min=1e-12)
    return state.scores, same


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
