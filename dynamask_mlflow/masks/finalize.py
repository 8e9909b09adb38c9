"""From a fitted ordering of the cells to what a method returns: the error curve, the chosen area, the mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.area import DEFAULT_AREAS, best_area, extremal_area, penalized_area
from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.fitted import Fitted
from dynamask_mlflow.masks.perturbation_objective import PerturbationObjective
from dynamask_mlflow.masks.ranking import Order

FRESH_STEP = 6001

MaskAt = Callable[[Tensor], Tensor]
"""Takes an area (B,), returns the mask (B, T, d)."""
AreaRule = Callable[[Tensor, Tensor], Tensor]
"""Takes the grid of areas and the distances on it, both (B, A), returns the area (B,)."""


@dataclass(frozen=True)
class Ranked:
    """A fitted ordering.

    Attributes:
        scores: (B, T, d) the ordering to report.
        mask_at: its mask of an area, for the error curve.
        number: (B,) cells that exist.
        unused: (B, T, d) cells that the model does not read; an automatic area has no room for them.
        stability: (B,) share of the mask that the second half of the fit left in place.
    """

    scores: Tensor
    mask_at: MaskAt
    number: Tensor
    unused: Tensor
    stability: Tensor


def distances_of(objective: PerturbationObjective, mask_at: MaskAt, operators: Sequence[int], areas: Tensor) -> Tensor:
    """(B, A): the mean distance r(a) over the operators, with fresh draws, the same at every area."""
    columns = []
    for column in range(areas.shape[1]):
        mask = mask_at(areas[:, column])
        each = torch.stack([objective.distance(mask, i, FRESH_STEP) for i in operators])
        columns.append(added_up(each) / len(operators))
    return torch.stack(columns, 1)


def finalize(
    objective: PerturbationObjective,
    config: ExplainConfig,
    ranked: Ranked,
    operators: Sequence[int],
    automatic: AreaRule,
) -> Fitted:
    """Measure the error curve with `operators`, choose the area, cut the mask there."""
    scores, number = ranked.scores, ranked.number
    grid = config.areas or DEFAULT_AREAS
    areas = scores.new_tensor(grid).expand(len(scores), -1)
    distances = distances_of(objective, ranked.mask_at, operators, torch.maximum(areas, 1 / number[:, None]))
    scale = (added_up((objective.empty[list(operators)] / objective.normaliser).sqrt()) / len(operators))[:, None]
    constant = objective.moved <= 1e-9 * objective.discrepancy.reference.flatten(1).square().sum(1) + 1e-12
    errors = (distances / scale.clamp(min=1e-6)).square().clamp(max=1.0)
    errors = torch.where(constant[:, None], torch.zeros_like(errors), errors)
    missed = torch.zeros_like(number, dtype=torch.bool)
    if not isinstance(config.area, str):
        area = torch.full_like(number, config.area)
    elif config.area == "best":
        area = best_area(areas, distances)
    elif config.area == "extremal":
        area, missed = extremal_area(areas, errors, config.epsilon)
    elif config.areas:
        area, _ = penalized_area(areas, distances)
    else:
        read = (~ranked.unused * objective.batch.weights()).flatten(1).sum(1) / number
        area = torch.minimum(automatic(areas, distances), read)
    dead = ranked.unused.flatten(1).all(1)
    # A mask of whole cells: only cells of equal score may have to share.
    area = torch.where(dead | constant, torch.zeros_like(area), (area * number).round().clamp(min=1) / number)
    return Fitted(
        masks=Order.of(scores, objective.batch.exists).mask(area),
        scores=scores,
        areas=tuple(grid),
        errors=errors,
        area=area,
        diagnostics={
            "converged": ranked.stability >= 0.7,
            "stability": ranked.stability,
            "dead_gradient": dead,
            "constant_prediction": constant,
            "plateau": (distances.amax(1) - distances.amin(1)) < 0.05 * scale[:, 0].clamp(min=1e-6),
            "epsilon_missed": missed,
            "empty_error": added_up(objective.empty) / len(objective.empty),
            **{
                f"failed/{operator.spec}": ~objective.usable[place]
                for place, operator in enumerate(objective.operators)
            },
        },
    )
