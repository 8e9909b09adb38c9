"""Nested masks for one answer a sequence: this patient, this risk.

Three looks at the same decision:

- gradients between the empty and the full mask tell how each cell moves the class margin;
- whole stretches, removed and kept (see `zoom`), tell where a net decides that no longer feels single cells;
- a short play of the deletion game (see `removal`) finds which cells, removed, turn the answer.

The ordering follows the first two; the third is an ordering of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from dynamask_mlflow.masks.area import falling_price, knee_area, window_around
from dynamask_mlflow.masks.conclusion import MaskAt, conclude, distances_of
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.operators import among
from dynamask_mlflow.masks.removal import delete, in_the_order_of, led_by, turns_better, with_remover
from dynamask_mlflow.masks.scores import Order, smooth_in_time
from dynamask_mlflow.masks.start import path_gradients, without_influence
from dynamask_mlflow.masks.zoom import zoom_worth

# The first removes, the second is the blank on which stretches are tried alone.
OPERATORS = ("time_mean", "neutral", "noise")

_PRAISE_WIDTH, _WIDTH = 1.0, 1.5
_AGREEMENT = 0.3
_AGAINST = 0.1
# Stretches and smoothing blur. Gradients sharpen the order where their few best cells turn the answer no worse.
_SHARP_SHARE, _FEW = 0.2, 0.05
# A class need only stand; of a value every digit counts, and so does a cell that moves it a little.
_CLASS_PRICE, _VALUE_PRICE = 0.15, 0.06
# A net that is sure rests on more cells than it needs: they are missed only when all of them are faint.
_FAINT_KEPT = ((2, 0.7), (1, 0.5))
_FAINT_REMOVED = (0.7, 0.5)


@dataclass(frozen=True)
class Effort:
    """How much work a fit takes."""

    levels: tuple[int, ...]
    keep: tuple[int, ...]
    finest: float
    both_games: bool
    steps: int
    looks: int
    judges: tuple[str, ...]


USUAL = Effort(
    levels=(3, 5, 1), keep=(4, 4, 3), finest=3.0, both_games=True, steps=14, looks=2, judges=("time_mean", "noise")
)
FAST = Effort(levels=(1, 1, 1), keep=(3, 2), finest=3.0, both_games=False, steps=5, looks=1, judges=("noise",))


def fit_one_answer(game: Game, config: ExplainConfig, tick: Tick) -> Fitted:
    effort = FAST if config.fast else USUAL
    exists = game.batch.exists
    number = game.batch.weights().flatten(1).sum(1).clamp(min=1)
    levels = [effort.levels[min(k, len(effort.levels) - 1)] for k in range(len(game.operators))]
    by_operator, influence = path_gradients(game, levels)
    idle = without_influence(influence)
    grip = game.grip()
    by_mean, gradients = by_operator[0], _weighted(torch.stack(by_operator), grip, game.gap())
    removing = with_remover(game, grip)
    support = _support(removing, gradients, influence, effort)
    precise = turns_better(removing, gradients, support, _FEW)
    start = torch.where(precise[:, None, None], by_mean, support)
    deletion, stability = delete(game, config, effort.steps, start, number, tick)
    sharp = _SHARP_SHARE * grip[0] * precise
    scores = _agreed(support, gradients, sharp, exists)
    order = Order.of(scores, exists)
    judges = among(game.operators, effort.judges)

    def mask_at(area: Tensor) -> Tensor:
        return order.mask(torch.maximum(area, 1 / number))

    def automatic(areas: Tensor, distances: Tensor) -> Tensor:
        price = partial(falling_price, scale=_CLASS_PRICE if game.by_margin else _VALUE_PRICE)

        def kept_at(near: Tensor) -> Tensor:
            return distances_of(game, mask_at, judges, near)

        def cost_of(near: Tensor, kept: Tensor) -> Tensor:
            return (kept + _when_faint(removing, mask_at, near)) / 3 + price(near)

        # From a single cell on. The largest area costs more than there is to gain.
        single = (1 / number)[:, None]
        areas = torch.cat([single, torch.maximum(areas[:, :-1], single)], 1)
        kept = torch.cat([kept_at(single), distances[:, :-1]], 1)
        window = window_around(areas, kept + price(areas), before=1, after=2)
        areas, kept = areas.gather(1, window), kept.gather(1, window)
        return knee_area(areas, cost_of(areas, kept), lambda near: cost_of(near, kept_at(near)), effort.looks)

    worth = by_mean * game.normaliser.sqrt()[:, None, None]
    fitted = conclude(
        game,
        config,
        (1 - order.entry()).clamp(min=0),
        mask_at,
        judges,
        automatic,
        number,
        idle,
        stability,
        worth,
        in_the_order_of(worth, led_by(game, scores, deletion), exists),
    )
    if game.by_margin:
        fitted.diagnostics["margin"] = game.margin()
    return fitted


def _weighted(gradients: Tensor, grip: Tensor, gap: Tensor) -> Tensor:
    """The mean of the operators' path gradients (O, B, T, d), by their grip, and by how well they were integrated.

    With all its levels the path would sum to the gap between the whole and nothing; with a few it may miss the jump.
    """
    missed = gradients.flatten(2).sum(2) - gap
    weights = grip / (1 + missed.square())
    return (gradients * (weights / weights.sum(0))[:, :, None, None]).sum(0)


def _when_faint(game: Game, mask_at: MaskAt, areas: Tensor) -> Tensor:
    """Two more distances, added: with nothing but the cells at part of their strength, and with only a part removed."""
    deletion = replace(game, deletion=True)

    def distance(asked: Game, strength: float, judge: int) -> Tensor:
        return distances_of(asked, lambda area: strength * mask_at(area), (judge,), areas)

    last = len(game.operators) - 1
    kept = [distance(game, strength, min(judge, last)) for judge, strength in _FAINT_KEPT]
    removed = [distance(deletion, strength, 0) for strength in _FAINT_REMOVED]
    return torch.stack(kept).mean(0) + torch.stack(removed).mean(0)


def _support(game: Game, gradients: Tensor, influence: Tensor, effort: Effort) -> Tensor:
    """Worth by gradients and by stretches, brought together: what both praise comes first."""
    exists = game.batch.exists
    praised = smooth_in_time(gradients, _PRAISE_WIDTH, exists).clamp(min=0)
    stretches = zoom_worth(
        game,
        influence.sum(1),
        praised,
        effort.keep,
        effort.finest,
        removal=0,
        insertion=min(1, len(game.operators) - 1) if effort.both_games else None,
        seen=game.batch.weights(),
    )
    by_stretches = smooth_in_time(stretches, _PRAISE_WIDTH, exists).clamp(min=0)
    both = (praised * by_stretches).sqrt() + _AGREEMENT * (gradients + stretches)
    # Smoothing and stretches spill over onto neighbours; cells that the model does not read at all get nothing.
    spread = smooth_in_time(both, _WIDTH, exists, ends=True)
    return torch.where(influence > 0, spread, torch.zeros_like(both))


def _agreed(support: Tensor, deletion: Tensor, share: Tensor, exists: Tensor | None) -> Tensor:
    """Cells in the order of a weighted geometric mean of the areas at which they enter the two orderings.

    `share` (B,) is the weight of the second. Cells that speak against the answer come after most that speak for it, and
    before those that say nothing.
    """
    support = torch.where(support > 0, support, -_AGAINST * support)
    areas = [Order.of(scores, exists).entry() for scores in (support, deletion)]
    return -(areas[0].log() + share[:, None, None] * areas[1].log())
