"""Nested masks: one score a cell, fitted once, holds the mask of every area.

The fit starts from gradients averaged between the empty and the full mask, then descends on the scores: each step
draws an area and an operator, plays the game with the mask of that area, and follows the gradient through it.
The scores are compared with themselves smoothed over time, and each instance keeps the width that tells its story
with the least error, the fewest cells and the fewest runs of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.area import DEFAULT_AREAS, best_area, extremal_area, log_grid, thrifty_area
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.objective import time_regulariser
from dynamask_mlflow.masks.operators import Batch, Operator, parse_operators
from dynamask_mlflow.masks.scores import entry_order, mask_at, score_gradient, smooth_in_time
from dynamask_mlflow.masks.start import path_gradients, starting_scores, without_influence

OPERATORS = ("noise", "time_mean", "moving_average:3", "zero", "random_fade", "blur:1")
DELETION_OPERATORS = ("time_mean",)
LEVELS = 3
STEPS = {"one_answer": 50, "other": 120}
FAST_STEPS = {"one_answer": 12, "other": 40}

# Operators that remove a cell for good compare scores; gentle ones have their say when the area is settled.
_JUDGES = ("time_mean", "noise")
_JURY = ("noise", "time_mean", "moving_average:3", "zero", "random_fade")
_WIDTHS = (0.0, 1.0, 2.5, 6.0)
_NEARBY = (0.6, 1.0, 1.6)
_NEARBY_ONE = (0.75, 1.33)
_AROUND = (0.2, 0.45, 1.0, 1.6, 2.5)
_PRICE = 1.03
_FINAL = (0.5, 0.71, 1.0, 1.41, 2.0)
_HOT, _COLD = 1.0, 0.05
_GOLDEN = 0.6180339887498949
_FRESH_STEP = 6001
_BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class _Plan:
    """What `auto` means for this batch.

    One answer a sequence is ranked well by its gradients, and a long descent would overfit its one number: few small
    steps, and a run of cells counts more. Deletion wants every area in the right order.
    """

    levels: int
    steps: int
    learning_rate: float
    time_weight: float
    widths: tuple[float, ...]
    run_price: float
    one_answer: bool
    wide: bool

    @classmethod
    def of(cls, config: ExplainConfig, game: Game) -> _Plan:
        one_answer = game.by_margin and not config.deletion
        steps = FAST_STEPS if config.fast else STEPS
        return cls(
            levels=1 if config.fast else LEVELS,
            steps=config.steps or steps["one_answer" if game.by_margin else "other"],
            learning_rate=config.learning_rate or (0.03 if one_answer else 0.1),
            time_weight=config.time_weight or 0.0,
            widths=(0.0,) if config.deletion else _WIDTHS,
            run_price=3.0 if one_answer else 1.0,
            one_answer=one_answer,
            wide=config.deletion,
        )


def fit_nested(black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted:
    """Fit one batch; see the module's text. Nothing inside waits for the device."""
    default = DELETION_OPERATORS if config.deletion else OPERATORS
    operators = parse_operators(config.operators or default)
    game = Game.open(black_box, batch, operators, config.loss, config.deletion)
    fit = _Fit(game, _Plan.of(config, game), tick)
    scores, area, stability = fit.run()
    return _conclude(fit, scores, area, stability, config)


class _Fit:
    def __init__(self, game: Game, plan: _Plan, tick: Tick) -> None:
        self.game, self.plan, self.tick = game, plan, tick
        self.exists = game.batch.exists
        x = game.batch.x
        cells = x.shape[1] * x.shape[2]
        self.number = (
            x.new_full((len(x),), float(cells)) if self.exists is None else self.exists.flatten(1).sum(1).to(x.dtype)
        ).clamp(min=1)
        self.judges = _among(game.operators, _JUDGES)
        self.jury = self.judges if plan.one_answer else _among(game.operators, _JURY)
        self.idle = torch.zeros_like(x, dtype=torch.bool)

    def run(self) -> tuple[Tensor, Tensor, Tensor]:
        """The fitted scores, about which area, and how much of the mask the second half of the fit left in place."""
        worth, influence = path_gradients(self.game, self.plan.levels)
        self.idle = without_influence(influence)
        starts = [
            self._settle(starting_scores(smooth_in_time(worth, width, self.exists))) for width in self.plan.widths
        ]
        low = max(1e-3, 1 / (worth.shape[1] * worth.shape[2]))
        area, _ = self._area(
            starts[len(starts) // 2],
            worth.new_tensor(log_grid(low, 0.7, 6 if self.plan.one_answer else 8)).expand(len(worth), -1),
        )
        if self.plan.one_answer:
            scores = starts[1]
        else:
            scores, area = self._least_cost(starts, area)
        half = self.plan.steps // 2
        state = _Adam(scores, self.plan.learning_rate, self.plan.steps)
        midway = scores
        for step in range(self.plan.steps):
            if step == half:
                midway = state.scores
                if not (self.plan.one_answer or self.plan.wide):
                    area, _ = self._area(midway, area[:, None] * area.new_tensor(_AROUND))
            state.descend(self._gradient(state, step, self._drawn(area, step, first=step < half)))
            self.tick()
        before, after = (mask_at(z, area, _COLD, self.exists).flatten(1) for z in (midway, state.scores))
        stability = torch.minimum(before, after).sum(1) / after.sum(1).clamp(min=1e-12)
        finals = [self._settle(smooth_in_time(state.scores, width, self.exists)) for width in self.plan.widths]
        return *self._least_cost(finals, area), stability

    def _drawn(self, area: Tensor, step: int, *, first: bool) -> Tensor:
        """Areas evenly spread (golden ratio) over all areas, or over the neighbourhood of the area that matters."""
        share = math.modf(0.5 + step * _GOLDEN)[0]
        if self.plan.wide:
            return torch.full_like(area, 0.003 * (0.7 / 0.003) ** share)
        low, high = (0.25, 2.5) if first else (0.5, 1.5)
        return torch.minimum(torch.maximum(area * (low * (high / low) ** share), 1 / self.number), area * 0 + 0.95)

    def _gradient(self, state: _Adam, step: int, area: Tensor) -> Tensor:
        temperature = _HOT * (_COLD / _HOT) ** (step / self.plan.steps)
        mask = mask_at(state.scores, area, temperature, self.exists)
        gradient = self.game.gradient(mask, step % len(self.game.operators), step)
        if self.plan.time_weight > 0:
            jumps = time_regulariser(mask, self.exists)[1]
            gradient = gradient + self.plan.time_weight * jumps / self.number[:, None, None]
        return score_gradient(gradient, mask, temperature)

    def _settle(self, scores: Tensor) -> Tensor:
        """Cells that the model does not read go to the very end, or, where worth has a sign, stay at zero."""
        if self.game.by_margin:
            return scores
        last = scores.flatten(1).amin(1)[:, None, None] - 1
        return torch.where(self.idle, last, scores)

    def _area(self, scores: Tensor, areas: Tensor) -> tuple[Tensor, Tensor]:
        areas = areas.clamp(max=0.95)
        return thrifty_area(areas, self.distances(scores, areas))

    def distances(self, scores: Tensor, areas: Tensor, judges: Sequence[int] | None = None) -> Tensor:
        """r(a): the mean over the judging operators, with fresh draws, the same at every area."""
        judges = self.judges if judges is None else judges
        columns = []
        for column in range(areas.shape[1]):
            area = torch.maximum(areas[:, column], 1 / self.number)
            mask = mask_at(scores, area, _COLD, self.exists)
            columns.append(torch.stack([self.game.distance(mask, i, _FRESH_STEP) for i in judges]).mean(0))
        return torch.stack(columns, 1)

    def _least_cost(self, candidates: Sequence[Tensor], area: Tensor) -> tuple[Tensor, Tensor]:
        """Of several scores the one of least r(a) + a + runs / n near an area, for each instance, and its area."""
        if len(candidates) == 1:
            return candidates[0], area
        nearby = (area[:, None] * area.new_tensor(_NEARBY_ONE if self.plan.one_answer else _NEARBY)).clamp(max=0.95)
        costs, areas = [], []
        for scores in candidates:
            found, cost = thrifty_area(nearby, self.distances(scores, nearby))
            mask = mask_at(scores, torch.maximum(found, 1 / self.number), _COLD, self.exists)
            runs = time_regulariser(mask, self.exists)[0] / 2
            costs.append(cost + self.plan.run_price * runs / self.number)
            areas.append(found)
        chosen = torch.stack(costs).argmin(0)
        rows = torch.arange(len(chosen), device=chosen.device)
        return torch.stack(list(candidates))[chosen, rows], torch.stack(areas)[chosen, rows]


class _Adam:
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


def _among(operators: Sequence[Operator], specs: Sequence[str]) -> list[int]:
    """Positions of the operators with those specs; of all operators when there are none."""
    chosen = [i for i, operator in enumerate(operators) if operator.spec in specs]
    return chosen or list(range(len(operators)))


def _conclude(fit: _Fit, scores: Tensor, area: Tensor, stability: Tensor, config: ExplainConfig) -> Fitted:
    grid = config.areas or DEFAULT_AREAS
    areas = scores.new_tensor(grid).expand(len(scores), -1)
    distances = fit.distances(scores, areas)
    scale = (fit.game.empty[fit.judges] / fit.game.normaliser).sqrt().mean(0).clamp(min=1e-12)[:, None]
    errors = (distances / scale).square()
    missed = torch.zeros_like(fit.number, dtype=torch.bool)
    if not isinstance(config.area, str):
        area = torch.full_like(fit.number, config.area)
    elif config.area == "best":
        area = best_area(areas, distances)
    elif config.area == "extremal":
        area, missed = extremal_area(areas, errors, config.epsilon)
    elif config.areas:
        area, _ = thrifty_area(areas, distances)
    else:
        nearby = (area[:, None] * area.new_tensor(_FINAL)).clamp(max=0.95)
        distances_nearby = fit.distances(scores, nearby, fit.jury)
        area, _ = thrifty_area(
            nearby,
            distances_nearby,
            _PRICE,
            lambda a: fit.distances(scores, a, fit.jury),
            zooms=1 if fit.plan.one_answer else 2,
        )
    constant = fit.game.empty.amax(0) <= 1e-9 * fit.game.discrepancy.reference.flatten(1).square().sum(1) + 1e-12
    dead = fit.idle.flatten(1).all(1)
    nothing = dead | (constant & ~torch.tensor(fit.game.by_margin, device=dead.device))
    area = torch.where(nothing, torch.zeros_like(area), torch.maximum(area, 1 / fit.number))
    mask = mask_at(scores, area.clamp(min=1e-6), _COLD, fit.exists) * (~nothing)[:, None, None]
    return Fitted(
        masks=mask,
        scores=entry_order(scores, fit.exists),
        areas=tuple(grid),
        errors=errors,
        area=area,
        diagnostics={
            "converged": stability >= 0.7,
            "stability": stability,
            "dead_gradient": dead,
            "constant_prediction": constant,
            "plateau": (distances.amax(1) - distances.amin(1)) < 0.05 * scale[:, 0],
            "epsilon_missed": missed,
            "empty_error": fit.game.empty.mean(0),
        },
    )
