"""Nested masks for one answer a sequence: this patient, this risk.

Three looks at the same decision:

- gradients between the empty and the full mask tell how each cell moves the class margin;
- whole stretches, removed and kept (see `zoom`), tell where a net decides that no longer feels single cells;
- a short descent in the deletion game finds which cells, removed, turn the answer.

The ordering follows the first two, and the third where they leave a choice. The third, with the sign and size of
the gradients, is the worth of a cell: what the answer loses without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dynamask_mlflow.masks.area import falling_price, thrifty_area
from dynamask_mlflow.masks.conclusion import conclude, distances_of
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.descent import Adam, game_gradient, spread_evenly
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.scores import Order, smooth_in_time
from dynamask_mlflow.masks.start import path_gradients, starting_scores, without_influence
from dynamask_mlflow.masks.zoom import zoom_worth

# The first removes, the second is the blank on which stretches are tried alone; all of them judge.
OPERATORS = ("time_mean", "neutral", "noise")

_WIDTH = 1.5
_AGREEMENT = 0.3
_AGAINST = 0.1
_DELETION_SHARE = 1 / 3
_NEED = 1 / 3
_TRIALS = (0.03, 0.1)
_SMALLEST, _LARGEST = 0.003, 0.7


@dataclass(frozen=True)
class Effort:
    """How much work a fit takes."""

    levels: int
    keep: int
    finest: float
    both_games: bool
    steps: int
    zooms: int
    judges: int


USUAL = Effort(levels=3, keep=3, finest=3.0, both_games=True, steps=20, zooms=2, judges=3)
FAST = Effort(levels=1, keep=2, finest=3.0, both_games=False, steps=10, zooms=1, judges=2)


def fit_one_answer(game: Game, config: ExplainConfig, tick: Tick) -> Fitted:
    effort = FAST if config.fast else USUAL
    exists, seen = game.batch.exists, game.batch.weights()
    number = seen.flatten(1).sum(1).clamp(min=1)
    by_operator, influence = path_gradients(game, effort.levels)
    idle = without_influence(influence)
    worth = by_operator[0]
    support = _support(game, torch.stack(by_operator).mean(0), influence, effort, seen)
    starts = [starting_scores(worth), starting_scores(support)]
    deletion, stability = _delete(game, config, effort.steps, starts, number, tick)
    order = Order.of(_agreed(support, deletion, exists), exists)
    judges = range(len(game.operators))[: effort.judges]

    removed = replace(game, deletion=True)

    def automatic(areas: Tensor, distances: Tensor) -> Tensor:
        """The cells must suffice, and they must be needed: the second counts half as much as the first."""

        def with_removal(near: Tensor, kept: Tensor) -> Tensor:
            return torch.lerp(kept, distances_of(removed, order.mask, (0,), near), _NEED)

        def curve(near: Tensor) -> Tensor:
            near = torch.maximum(near, 1 / number[:, None])
            return with_removal(near, distances_of(game, order.mask, judges, near))

        return thrifty_area(areas, with_removal(areas, distances), falling_price, curve, effort.zooms)[0]

    return conclude(
        game,
        config,
        (1 - order.entry()).clamp(min=0),
        order.mask,
        judges,
        automatic,
        number,
        idle,
        stability,
        _worth(worth * game.normaliser.sqrt()[:, None, None], deletion, exists),
    )


def _support(game: Game, gradients: Tensor, influence: Tensor, effort: Effort, seen: Tensor) -> Tensor:
    """Worth by gradients and by stretches, brought together: what both praise comes first."""
    stretches = zoom_worth(
        game,
        influence.sum(1),
        effort.keep,
        effort.finest,
        removal=0,
        insertion=min(1, len(game.operators) - 1) if effort.both_games else None,
        seen=seen,
    )
    exists = game.batch.exists
    praised = [smooth_in_time(part, _WIDTH, exists).clamp(min=0) for part in (gradients, stretches)]
    both = (praised[0] * praised[1]).sqrt() + _AGREEMENT * (gradients + stretches)
    # Smoothing and stretches spill over onto neighbours; cells that the model does not read at all get nothing.
    return torch.where(influence > 0, smooth_in_time(both, _WIDTH, exists), torch.zeros_like(both))


def _delete(
    game: Game, config: ExplainConfig, steps: int, starts: Sequence[Tensor], number: Tensor, tick: Tick
) -> tuple[Tensor, Tensor]:
    """Scores whose best cells, removed by the first operator, turn the answer, at every area at once.

    Starts from whichever scores already do it better. Also: how much of the mask the second half left in place.
    """
    steps = config.steps or steps
    deletion = replace(game, deletion=True)
    exists = game.batch.exists

    def left(scores: Tensor) -> Tensor:
        order = Order.of(scores, exists)
        masks = [order.mask(torch.full_like(number, share)) for share in _TRIALS]
        return torch.stack([game.standing(1 - mask, 0, 0) for mask in masks]).sum(0)

    better = left(starts[1]) < left(starts[0])
    state = Adam(torch.where(better[:, None, None], starts[1], starts[0]), config.learning_rate or 0.1, steps)
    midway = state.scores
    for step in range(steps):
        if step == steps // 2:
            midway = state.scores
        share = _SMALLEST * (_LARGEST / _SMALLEST) ** spread_evenly(step)
        area = torch.maximum(torch.full_like(number, share), 1 / number)
        state.descend(game_gradient(deletion, state.scores, area, 0, step, steps, config.time_weight or 0.0, number))
        tick()
    tenth = torch.full_like(number, 0.1)
    before, after = (Order.of(scores, exists).mask(tenth) for scores in (midway, state.scores))
    same = torch.minimum(before, after).flatten(1).sum(1) / after.flatten(1).sum(1).clamp(min=1e-12)
    return state.scores, same


def _agreed(support: Tensor, deletion: Tensor, exists: Tensor | None) -> Tensor:
    """Cells in the order of a weighted geometric mean of the areas at which they enter the two orderings.

    Cells that speak against the answer come after most that speak for it, and before those that say nothing.
    """
    support = torch.where(support > 0, support, -_AGAINST * support)
    areas = [Order.of(scores, exists).entry() for scores in (support, deletion)]
    return -(areas[0].log() + _DELETION_SHARE * areas[1].log())


def _worth(gradients: Tensor, deletion: Tensor, exists: Tensor | None) -> Tensor:
    """The values of the path gradients, which sum to what the whole input is worth, in the order of the descent."""
    z, values = deletion.flatten(1), gradients.flatten(1)
    if exists is not None:
        missing = ~exists.flatten(1)
        z, values = z.masked_fill(missing, float("-inf")), values.masked_fill(missing, float("-inf"))
    place = z.argsort(dim=1, stable=True).argsort(1)
    ordered = values.sort(1).values.gather(1, place).view_as(gradients)
    unread = gradients == 0
    return torch.where(unread if exists is None else unread | ~exists, torch.zeros_like(ordered), ordered)
