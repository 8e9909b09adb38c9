"""From an ordering of the cells to what a method returns: the error curve, the chosen area, the mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dynamask_mlflow.masks.area import DEFAULT_AREAS, best_area, extremal_area, thrifty_area
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.fitted import Fitted
from dynamask_mlflow.masks.game import Game
from dynamask_mlflow.masks.scores import Order

FRESH_STEP = 6001

MaskAt = Callable[[Tensor], Tensor]
"""Takes an area (B,), returns the mask (B, T, d)."""
Distances = Callable[[Tensor], Tensor]
"""Takes areas (B, A), returns r(a) at each (B, A)."""


def distances_of(game: Game, mask_at: MaskAt, judges: Sequence[int], areas: Tensor) -> Tensor:
    """r(a): the mean over the judging operators, with fresh draws, the same at every area."""
    columns = []
    for column in range(areas.shape[1]):
        mask = mask_at(areas[:, column])
        columns.append(torch.stack([game.distance(mask, i, FRESH_STEP) for i in judges]).mean(0))
    return torch.stack(columns, 1)


def conclude(
    game: Game,
    config: ExplainConfig,
    scores: Tensor,
    mask_at: MaskAt,
    judges: Sequence[int],
    automatic: Callable[[Tensor, Tensor], Tensor],
    number: Tensor,
    idle: Tensor,
    stability: Tensor,
    worth: Tensor | None = None,
    removal: Tensor | None = None,
) -> Fitted:
    """Fill in `Fitted`.

    Args:
        scores: (B, T, d) the ordering to report.
        mask_at: the mask of an area, for the error curve.
        judges: operators that measure the error curve.
        automatic: the area (B,) from the grid (B, A) and the distances on it, when none is asked for.
        number: (B,) cells that exist.
        idle: (B, T, d) cells that the model does not read; the automatic area has no room for them.
        stability: (B,) share of the mask that the second half of the fit left in place.
        worth, removal: (B, T, d) passed on, see `Fitted`.
    """
    grid = config.areas or DEFAULT_AREAS
    areas = scores.new_tensor(grid).expand(len(scores), -1)
    distances = distances_of(game, mask_at, judges, torch.maximum(areas, 1 / number[:, None]))
    scale = (game.empty[list(judges)] / game.normaliser).sqrt().mean(0).clamp(min=1e-12)[:, None]
    errors = (distances / scale).square()
    missed = torch.zeros_like(number, dtype=torch.bool)
    if not isinstance(config.area, str):
        area = torch.full_like(number, config.area)
    elif config.area == "best":
        area = best_area(areas, distances)
    elif config.area == "extremal":
        area, missed = extremal_area(areas, errors, config.epsilon)
    elif config.areas:
        area, _ = thrifty_area(areas, distances)
    else:
        read = (~idle * game.batch.weights()).flatten(1).sum(1) / number
        area = torch.minimum(automatic(areas, distances), read)
    constant = game.moved <= 1e-9 * game.discrepancy.reference.flatten(1).square().sum(1) + 1e-12
    dead = idle.flatten(1).all(1)
    nothing = dead | constant
    # A mask of whole cells: only cells of equal score may have to share.
    area = torch.where(nothing, torch.zeros_like(area), (area * number).round().clamp(min=1) / number)
    return Fitted(
        masks=Order.of(scores, game.batch.exists).mask(area),
        scores=scores,
        areas=tuple(grid),
        errors=errors,
        area=area,
        diagnostics={
            "converged": stability >= 0.7,
            "stability": stability,
            "dead_gradient": dead,
            "constant_prediction": constant,
            "default_answer": ~constant & (game.empty.amax(0) <= 1e-12),
            "plateau": (distances.amax(1) - distances.amin(1)) < 0.05 * scale[:, 0],
            "epsilon_missed": missed,
            "empty_error": game.empty.mean(0),
        },
        worth=worth,
        removal=removal,
    )
