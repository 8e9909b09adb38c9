"""Nested masks: one score a cell, fitted once, holds the mask of every area.

The fit starts from gradients averaged between the empty and the full mask, then descends on the scores: each step
draws an area and an operator, plays the game with the mask of that area, and follows the gradient through it.
The scores are compared with themselves smoothed over time, and each instance keeps the width that tells its story
with the least error, the fewest cells and the fewest runs of cells.

One answer a sequence is another task, with a procedure of its own: see `one_answer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from dynamask_mlflow.masks import one_answer
from dynamask_mlflow.masks.area import log_grid, thrifty_area
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.conclusion import conclude, distances_of
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.descent import COLD, Adam, game_gradient, spread_evenly
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.objective import time_regulariser
from dynamask_mlflow.masks.operators import Batch, among, parse_operators
from dynamask_mlflow.masks.scores import Order, entry_order, mask_at, persists_in_time, smooth_in_time
from dynamask_mlflow.masks.start import path_gradients, starting_scores, without_influence

OPERATORS = ("noise", "time_mean", "moving_average:3", "neutral", "random_fade", "blur:1")
DELETION_OPERATORS = ("time_mean",)
LEVELS = 3
CREDIT_LEVELS, FAST_CREDIT_LEVELS = 6, 3
STEPS, FAST_STEPS = 120, 40
DELETION_STEPS, FAST_DELETION_STEPS = 50, 12

# Operators that remove a cell for good compare scores; gentle ones have their say when the area is settled.
_JUDGES = ("time_mean", "noise")
_JURY = ("noise", "time_mean", "moving_average:3", "neutral", "random_fade")
_WIDTHS = (0.0, 1.0, 2.5, 6.0)
_NEARBY = (0.6, 1.0, 1.6)
_AROUND = (0.2, 0.45, 1.0, 1.6, 2.5)
_PRICE = 1.1
# Weight of the credit beside the fit, and by how much both are smoothed where the credit persists.
_CREDIT = 4.0
_FIT_WIDTH, _CREDIT_WIDTH = 3.0, 1.0
_FINAL = (0.5, 0.71, 1.0, 1.41, 2.0)


@dataclass(frozen=True)
class _Plan:
    """What `auto` means for this batch. Deletion wants every area in the right order."""

    levels: int
    steps: int
    learning_rate: float
    time_weight: float
    widths: tuple[float, ...]
    wide: bool
    credit_levels: int

    @classmethod
    def of(cls, config: ExplainConfig, game: Game) -> _Plan:
        usual, fast = (DELETION_STEPS, FAST_DELETION_STEPS) if game.by_margin else (STEPS, FAST_STEPS)
        return cls(
            levels=1 if config.fast else LEVELS,
            steps=config.steps or (fast if config.fast else usual),
            learning_rate=config.learning_rate or 0.1,
            time_weight=config.time_weight or 0.0,
            widths=(0.0,) if config.deletion else _WIDTHS,
            wide=config.deletion,
            credit_levels=_credit_levels(config, game),
        )


def _credit_levels(config: ExplainConfig, game: Game) -> int:
    if config.deletion or not game.discrepancy.classification:
        return 0
    return FAST_CREDIT_LEVELS if config.fast else CREDIT_LEVELS


def fit_nested(black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted:
    """Fit one batch; see the module's text. Nothing inside waits for the device."""
    once = _asks_for_one_answer(black_box, batch, config)
    default = DELETION_OPERATORS if config.deletion else one_answer.OPERATORS if once else OPERATORS
    operators = parse_operators(config.operators or default)
    game = Game.open(black_box, batch, operators, config.loss, config.deletion, once)
    if once:
        return one_answer.fit_one_answer(game, config, tick)
    fit = _Fit(game, _Plan.of(config, game), tick)
    scores, area, stability = fit.run()
    return _conclude(fit, scores, area, stability, config)


def _asks_for_one_answer(black_box: BlackBox, batch: Batch, config: ExplainConfig) -> bool:
    losses = ("auto", "margin") if black_box.task == "classification" else ("auto", "squared")
    return not config.deletion and config.loss in losses and black_box.answers_once(batch.x)


class _Fit:
    def __init__(self, game: Game, plan: _Plan, tick: Tick) -> None:
        self.game, self.plan, self.tick = game, plan, tick
        self.exists = game.batch.exists
        x = game.batch.x
        cells = x.shape[1] * x.shape[2]
        self.number = (
            x.new_full((len(x),), float(cells)) if self.exists is None else self.exists.flatten(1).sum(1).to(x.dtype)
        ).clamp(min=1)
        self.judges = among(game.operators, _JUDGES)
        self.jury = among(game.operators, _JURY)
        self.idle = torch.zeros_like(x, dtype=torch.bool)

    def run(self) -> tuple[Tensor, Tensor, Tensor]:
        """The fitted scores, about which area, and how much of the mask the second half of the fit left in place."""
        worths, influence = path_gradients(self.game, [self.plan.levels] * len(self.game.operators))
        worth = torch.stack(worths).mean(0)
        self.idle = without_influence(influence)
        starts = [
            self._settle(starting_scores(smooth_in_time(worth, width, self.exists))) for width in self.plan.widths
        ]
        low = max(1e-3, 1 / (worth.shape[1] * worth.shape[2]))
        area, _ = self._area(
            starts[len(starts) // 2],
            worth.new_tensor(log_grid(low, 0.7, 8)).expand(len(worth), -1),
        )
        scores, area = self._least_cost(starts, area, (1.0,))
        half = self.plan.steps // 2
        state = Adam(scores, self.plan.learning_rate, self.plan.steps)
        midway = scores
        for step in range(self.plan.steps):
            if step == half:
                midway = state.scores
                if not self.plan.wide:
                    area, _ = self._area(midway, area[:, None] * area.new_tensor(_AROUND))
            state.descend(self._gradient(state, step, self._drawn(area, step, first=step < half)))
            self.tick()
        before, after = (mask_at(z, area, COLD, self.exists).flatten(1) for z in (midway, state.scores))
        stability = torch.minimum(before, after).sum(1) / after.sum(1).clamp(min=1e-12)
        if self.plan.credit_levels:
            return self._with_credit(state.scores), area, stability
        finals = [self._settle(smooth_in_time(state.scores, width, self.exists)) for width in self.plan.widths]
        return *self._least_cost(finals, area, _NEARBY), stability

    def _with_credit(self, fitted: Tensor) -> Tensor:
        """Classes at every step: the order of the credit for the chosen classes, and of the fit.

        The fit asks for every logit, however sure the class; credit asks what the classes themselves rest on. It is
        nothing where a reading happens to be nothing, so both are smoothed over time where credit persists.
        """
        levels = self.plan.credit_levels
        blank = among(self.game.operators, ("neutral",))[0]
        credit = torch.zeros_like(fitted)
        for level in range(levels):
            credit += self.game.credit((level + 0.5) / levels, blank, level)
        size = credit.abs().sqrt()
        persists = persists_in_time(size, self.exists)[:, None, None]
        entries = []
        for part, width in ((fitted, _FIT_WIDTH), (size, _CREDIT_WIDTH)):
            chosen = torch.where(persists, smooth_in_time(part, width, self.exists), part)
            entries.append(Order.of(chosen, self.exists).entry().log())
        return self._settle(-(entries[0] + _CREDIT * entries[1]))

    def _drawn(self, area: Tensor, step: int, *, first: bool) -> Tensor:
        """Areas evenly spread (golden ratio) over all areas, or over the neighbourhood of the area that matters."""
        share = spread_evenly(step)
        if self.plan.wide:
            return torch.full_like(area, 0.003 * (0.7 / 0.003) ** share)
        low, high = (0.25, 2.5) if first else (0.5, 1.5)
        return torch.minimum(torch.maximum(area * (low * (high / low) ** share), 1 / self.number), area * 0 + 0.95)

    def _gradient(self, state: Adam, step: int, area: Tensor) -> Tensor:
        index = step % len(self.game.operators)
        plan = self.plan
        return game_gradient(self.game, state.scores, area, index, step, plan.steps, plan.time_weight, self.number)

    def _settle(self, scores: Tensor) -> Tensor:
        """Cells that the model does not read go to the very end, or, where worth has a sign, stay at zero."""
        if self.game.by_margin:
            return scores
        last = scores.flatten(1).amin(1)[:, None, None] - 1
        return torch.where(self.idle, last, scores)

    def _area(self, scores: Tensor, areas: Tensor) -> tuple[Tensor, Tensor]:
        areas = areas.clamp(max=0.95)
        return thrifty_area(areas, self.distances(scores, areas))

    def mask_of(self, scores: Tensor, area: Tensor) -> Tensor:
        return mask_at(scores, torch.maximum(area, 1 / self.number), COLD, self.exists)

    def distances(self, scores: Tensor, areas: Tensor, judges: Sequence[int] | None = None) -> Tensor:
        return distances_of(self.game, partial(self.mask_of, scores), judges or self.judges, areas)

    def _least_cost(self, candidates: Sequence[Tensor], area: Tensor, near: tuple[float, ...]) -> tuple[Tensor, Tensor]:
        """Of several scores the one of least r(a) + a + runs / n near an area, for each instance, and its area."""
        if len(candidates) == 1:
            return candidates[0], area
        nearby = (area[:, None] * area.new_tensor(near)).clamp(max=0.95)
        costs, areas = [], []
        for scores in candidates:
            found, cost = thrifty_area(nearby, self.distances(scores, nearby))
            runs = time_regulariser(self.mask_of(scores, found), self.exists)[0] / 2
            costs.append(cost + runs / self.number)
            areas.append(found)
        chosen = torch.stack(costs).argmin(0)
        rows = torch.arange(len(chosen), device=chosen.device)
        return torch.stack(list(candidates))[chosen, rows], torch.stack(areas)[chosen, rows]


def _conclude(fit: _Fit, scores: Tensor, area: Tensor, stability: Tensor, config: ExplainConfig) -> Fitted:
    def automatic(_areas: Tensor, _distances: Tensor) -> Tensor:
        """The grid is coarse; the fit already knows about which area matters."""
        nearby = (area[:, None] * area.new_tensor(_FINAL)).clamp(max=0.95)

        def curve(areas: Tensor) -> Tensor:
            return fit.distances(scores, areas, fit.jury)

        return thrifty_area(nearby, curve(nearby), _PRICE, curve, zooms=3)[0]

    return conclude(
        fit.game,
        config,
        entry_order(scores, fit.exists),
        partial(fit.mask_of, scores),
        fit.judges,
        automatic,
        fit.number,
        fit.idle,
        stability,
    )
