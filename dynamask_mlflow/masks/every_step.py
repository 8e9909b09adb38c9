"""Nested masks for answers at every step, and for `deletion=True`: one score a cell holds the mask of every area.

The fit starts from gradients averaged between the empty and the full mask, then descends on the scores: each step
draws an area and an operator, applies the mask of that area, and follows the gradient of the error. The scores are
compared with themselves smoothed over time, and each instance keeps the width of the least error, the fewest cells and
the fewest runs of cells. For classes the ordering then follows the attribution to the predicted classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from dynamask_mlflow.masks.area import log_grid, penalized_area
from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.departure import baseline_operators
from dynamask_mlflow.masks.descent import COLD, Adam, objective_gradient, spread_evenly, starting_scores
from dynamask_mlflow.masks.finalize import AreaRule, Ranked, distances_of, finalize
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.gradient_scores import gradient_scores
from dynamask_mlflow.masks.objective import time_regulariser
from dynamask_mlflow.masks.operators import Batch, among, parse_operators
from dynamask_mlflow.masks.perturbation_objective import PerturbationObjective
from dynamask_mlflow.masks.ranking import Order, entry_order
from dynamask_mlflow.masks.smoothing import persists_in_time, smooth_in_time
from dynamask_mlflow.masks.soft_masks import mask_at

OPERATORS = ("noise", "time_mean", "moving_average:3", "neutral", "random_fade", "blur:1")
DELETION_OPERATORS = ("time_mean",)
_PATH_STEP = 5001


@dataclass(frozen=True)
class EveryStepTuning:
    """Numbers of this algorithm, chosen on the rare and state experiments; `class_weight` also on switch-feature.

    Attributes:
        levels: of the path gradients from which the fit starts, for each operator.
        class_levels: of the attribution to the predicted classes.
        steps, deletion_steps: of the descent.
        compare_operators: those that remove a cell for good; they compare scores.
        area_operators: those that choose the area.
        widths: over which scores are smoothed in time, to be compared.
        class_weight: of the class attribution's ordering beside the fit's.
        fit_width: by how much the fit is smoothed where the class attribution persists in time.
        area_penalty: what a cell must buy, in shares 1/n of the distance.
        area_doubt: by how many times the area an area may cost more and still be e times less likely.
    """

    levels: int = 3
    class_levels: int = 6
    steps: int = 120
    deletion_steps: int = 50
    compare_operators: tuple[str, ...] = ("time_mean", "noise")
    area_operators: tuple[str, ...] = ("noise", "time_mean", "moving_average:3", "neutral", "random_fade")
    widths: tuple[float, ...] = (0.0, 1.0, 2.5, 6.0)
    class_weight: float = 8.0
    fit_width: float = 3.0
    area_penalty: float = 1.1
    area_doubt: float = 0.05


USUAL = EveryStepTuning()
FAST = EveryStepTuning(levels=1, class_levels=3, steps=40, deletion_steps=12)

# Factors around an area: where the descent draws areas, where smoothed scores are compared, where the area is chosen.
_FIRST_HALF, _SECOND_HALF = (0.25, 2.5), (0.5, 1.5)
_AROUND = (0.2, 0.45, 1.0, 1.6, 2.5)
_NEARBY = (0.6, 1.0, 1.6)
_FINAL = (0.5, 0.71, 1.0, 1.41, 2.0)
_LARGEST = 0.95


def fit_every_step(black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted:
    """Fit one batch; see the module's text. Nothing inside waits for the device."""
    if config.deletion:
        operators = parse_operators(config.operators or DELETION_OPERATORS)
    else:
        operators = baseline_operators(batch, config.operators or OPERATORS)
    objective = PerturbationObjective.prepare(black_box, batch, operators, config.loss, config.deletion)
    fit = _Fit(objective, config, tick)
    scores, area, stability = fit.run()
    ranked = Ranked(entry_order(scores, batch.exists), partial(fit.mask_of, scores), fit.number, fit.unused, stability)
    fitted = finalize(fit.objective, config, ranked, fit.compare, _area_rule(fit, scores, area))
    if config.area == "auto" and not config.areas and not config.deletion:
        fitted = replace(fitted, masks=_chances(fit, scores, fitted), binary=fitted.masks >= 0.5)
    winner = torch.zeros_like(fit.number, dtype=torch.long)
    return replace(fitted, winner=winner, contestants=("deletion" if config.deletion else "every step",))


def _chances(fit: _Fit, scores: Tensor, fitted: Fitted) -> Tensor:
    """(B, T, d): the mean of the masks of areas around the chosen one, each as likely as its cost allows.

    P(a) is in proportion to exp(-(cost(a) - cost(a*)) / (area_doubt a*)), cost(a) = r(a) + area_penalty a. Where the
    distance has a sharp bend at a*, coefficients are 0 and 1; where it is flat, cells near the edge are in between.
    """
    number = fit.number[:, None]
    around = fitted.area[:, None] * fitted.area.new_tensor(_FINAL)
    areas = (around.clamp(max=_LARGEST) * number).round().clamp(min=1) / number
    cost = fit.distances(scores, areas, fit.area_operators) + fit.tuning.area_penalty * areas
    doubt = fit.tuning.area_doubt * fitted.area.clamp(min=1e-12)
    likely = torch.softmax(-cost / doubt[:, None], 1)
    order = Order.of(fitted.scores, fit.exists)
    read = (~fit.unused * fit.objective.batch.weights()).flatten(1).sum(1) / fit.number
    masks = [likely[:, k, None, None] * order.mask(torch.minimum(areas[:, k], read)) for k in range(areas.shape[1])]
    chances = added_up(torch.stack(masks)).clamp(max=1)
    return torch.where((fitted.area > 0)[:, None, None], chances, torch.zeros_like(scores))


def _area_rule(fit: _Fit, scores: Tensor, area: Tensor) -> AreaRule:
    def choose(_areas: Tensor, _distances: Tensor) -> Tensor:
        """The grid is coarse; the fit already knows about which area matters."""
        nearby = (area[:, None] * area.new_tensor(_FINAL)).clamp(max=_LARGEST)

        def curve(areas: Tensor) -> Tensor:
            return fit.distances(scores, areas, fit.area_operators)

        return penalized_area(nearby, curve(nearby), fit.tuning.area_penalty, curve, zooms=3)[0]

    return choose


class _Fit:
    def __init__(self, objective: PerturbationObjective, config: ExplainConfig, tick: Tick) -> None:
        self.objective, self.config, self.tick = objective, config, tick
        self.tuning = FAST if config.fast else USUAL
        self.exists = objective.batch.exists
        self.number = objective.batch.number_of_cells()
        self.compare = among(objective.operators, self.tuning.compare_operators)
        self.area_operators = among(objective.operators, self.tuning.area_operators)
        self.unused = torch.zeros_like(objective.batch.x, dtype=torch.bool)
        self.steps = config.steps or (self.tuning.deletion_steps if objective.by_margin else self.tuning.steps)
        self.widths = (0.0,) if config.deletion else self.tuning.widths

    @property
    def follows_classes(self) -> bool:
        return not self.config.deletion and self.objective.discrepancy.classification

    def run(self) -> tuple[Tensor, Tensor, Tensor]:
        """The fitted scores, about which area, and how much of the mask the second half of the fit left in place."""
        gain, magnitude = self._path_gradients()
        self.unused = magnitude <= 1e-3 * magnitude.flatten(1).mean(1)[:, None, None]
        starts = [self._unused_last(starting_scores(smooth_in_time(gain, width, self.exists))) for width in self.widths]
        low = max(1e-3, 1 / (gain.shape[1] * gain.shape[2]))
        grid = gain.new_tensor(log_grid(low, 0.7, 8)).expand(len(gain), -1)
        scores, area = self._least_cost(starts, self._area(starts[len(starts) // 2], grid), (1.0,))
        half = self.steps // 2
        state = Adam(scores, self.config.learning_rate or 0.1, self.steps)
        midway = scores
        for step in range(self.steps):
            if step == half:
                midway = state.scores
                if not self.config.deletion:
                    area = self._area(midway, area[:, None] * area.new_tensor(_AROUND))
            drawn = self._drawn(area, step, _FIRST_HALF if step < half else _SECOND_HALF)
            state.descend(self._gradient(state, step, drawn))
            self.tick()
        before, after = (mask_at(z, area, COLD, self.exists).flatten(1) for z in (midway, state.scores))
        stability = torch.minimum(before, after).sum(1) / after.sum(1).clamp(min=1e-12)
        if self.follows_classes:
            return self._with_class_attribution(state.scores), area, stability
        finals = [self._unused_last(smooth_in_time(state.scores, width, self.exists)) for width in self.widths]
        return *self._least_cost(finals, area, _NEARBY), stability

    def _path_gradients(self) -> tuple[Tensor, Tensor]:
        """The gain of each cell on the way from the empty to the full mask, mean over operators, and its mean size."""
        objective, levels = self.objective, self.tuning.levels
        gain, magnitude = torch.zeros_like(objective.batch.x), torch.zeros_like(objective.batch.x)
        usable = []
        for index, finite in enumerate(objective.usable):
            for level in range(levels):
                one, known = objective.gain((level + 0.5) / levels, index, _PATH_STEP + level)
                gain += one
                magnitude += one.abs()
                finite = finite & known
            usable.append(finite)
        self.objective = replace(objective, usable=torch.stack(usable))
        count = levels * len(objective.operators)
        return gain / count, magnitude / count

    def _with_class_attribution(self, fitted: Tensor) -> Tensor:
        """The ordering of the attribution to the predicted classes, and of the fit.

        The fit asks for every logit, however sure the class; the attribution asks what the classes rest on.
        """
        levels = self.tuning.class_levels
        baseline = among(self.objective.operators, ("neutral",))[0]
        attribution = torch.zeros_like(fitted)
        for level in range(levels):
            mask = torch.full_like(fitted, (level + 0.5) / levels)
            attribution += self.objective.class_gradient(mask, baseline, level)
        persists = persists_in_time(attribution.abs().sqrt(), self.exists)[:, None, None]
        fit = torch.where(persists, smooth_in_time(fitted, self.tuning.fit_width, self.exists), fitted)
        by_fit = Order.of(fit, self.exists).entry().log()
        one = torch.ones_like(self.number)[None]
        scores = gradient_scores(attribution[None], attribution[None].abs(), one, self.exists)
        by_classes = Order.of(scores, self.exists).entry().log()
        return self._unused_last(-(by_fit + self.tuning.class_weight * by_classes))

    def _drawn(self, area: Tensor, step: int, around: tuple[float, float]) -> Tensor:
        """Areas evenly spread (golden ratio) over all areas for deletion, else around the area that matters."""
        share = spread_evenly(step)
        if self.config.deletion:
            return torch.full_like(area, 0.003 * (0.7 / 0.003) ** share)
        low, high = around
        return torch.maximum(area * (low * (high / low) ** share), 1 / self.number).clamp(max=_LARGEST)

    def _gradient(self, state: Adam, step: int, area: Tensor) -> Tensor:
        index = step % len(self.objective.operators)
        weight = self.config.time_weight or 0.0
        return objective_gradient(self.objective, state.scores, area, index, (step, self.steps), weight)

    def _unused_last(self, scores: Tensor) -> Tensor:
        """Cells that the model does not read go to the very end, or, where scores have a sign, stay at zero."""
        if self.objective.by_margin:
            return scores
        last = scores.flatten(1).amin(1)[:, None, None] - 1
        return torch.where(self.unused, last, scores)

    def _area(self, scores: Tensor, areas: Tensor) -> Tensor:
        areas = areas.clamp(max=_LARGEST)
        return penalized_area(areas, self.distances(scores, areas))[0]

    def mask_of(self, scores: Tensor, area: Tensor) -> Tensor:
        return mask_at(scores, torch.maximum(area, 1 / self.number), COLD, self.exists)

    def distances(self, scores: Tensor, areas: Tensor, operators: Sequence[int] | None = None) -> Tensor:
        return distances_of(self.objective, partial(self.mask_of, scores), operators or self.compare, areas)

    def _least_cost(self, candidates: Sequence[Tensor], area: Tensor, near: tuple[float, ...]) -> tuple[Tensor, Tensor]:
        """Of several scores the one of least r(a) + a + runs / n near an area, for each instance, and its area."""
        if len(candidates) == 1:
            return candidates[0], area
        nearby = (area[:, None] * area.new_tensor(near)).clamp(max=_LARGEST)
        costs, areas = [], []
        for scores in candidates:
            found, cost = penalized_area(nearby, self.distances(scores, nearby))
            runs = time_regulariser(self.mask_of(scores, found), self.exists)[0] / 2
            costs.append(cost + runs / self.number)
            areas.append(found)
        chosen = torch.stack(costs).argmin(0)
        rows = torch.arange(len(chosen), device=chosen.device)
        return torch.stack(list(candidates))[chosen, rows], torch.stack(areas)[chosen, rows]
