"""The fit for models without gradients: one number of the answer, explained by forward passes alone.

1. Target and reference: how far the target score has departed from its reference answer (`departure`).
2. Ordering: segments removed and kept, from coarse to fine, within a budget of passes (`forward_search`).
3. Curves: how much of the departure the first 1, 4, 16, ... cells hold (`mask_size`).
4. Coefficients: the probability that a cell is salient, and the mask of whole cells (`coefficients`).
5. Attributions: the share of the smallest segment around a cell, scaled by sign so that they sum to the departure.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.masks.area import DEFAULT_AREAS
from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.coefficients import FORWARD_WEIGHTS, coefficients
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.contest import LARGEST_SHARE
from dynamask_mlflow.masks.deletion_search import in_the_order_of
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.forward_search import search_segments
from dynamask_mlflow.masks.gradient_scores import AGAINST, AGAINST_OF_VALUES
from dynamask_mlflow.masks.mask_size import SizeCurves, curve_sizes, size_curves
from dynamask_mlflow.masks.operators import Batch
from dynamask_mlflow.masks.ranking import Order
from dynamask_mlflow.masks.sequence_answer import (
    WELL_HELD,
    answers_of,
    errors_of,
    open_departure,
    whole_cells,
)
from dynamask_mlflow.masks.target_spec import parse_target

ALGORITHM = "forward passes"
# Fewer passes than these for the search tell next to nothing.
LEAST_SEARCH = 16


def fit_forward(black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted:
    """Explain one batch; see the module's text. Answers at every step are explained all together."""
    target = parse_target(config.target, config.class_names)
    with torch.no_grad():
        departure = open_departure(black_box, batch, config, target)
        departures = departure.by_strength()
        fixed = _fixed_passes(departure, batch.x[0].numel(), noise=config.operators is None)
        if config.forward_budget < fixed + LEAST_SEARCH:
            raise ConfigError(
                f"Expected forward_budget of at least {fixed + LEAST_SEARCH} for sequences of {batch.x[0].numel()} "
                f"cells, but got {config.forward_budget}."
            )
        against = AGAINST_OF_VALUES if black_box.task == "regression" else AGAINST
        found = search_segments(departures[0], config.forward_budget - fixed, tick, against)
        order = Order.of(found.scores, batch.exists)
        curves = size_curves(departures, order)
    unread = found.untouched
    nothing = departure.negligible | unread.flatten(1).all(1) | ~departure.usable.any(0)
    empty = nothing[:, None, None]
    everywhere = torch.ones_like(nothing)
    chance = coefficients(order, curves, found.scores.clamp(min=0), everywhere, unread, FORWARD_WEIGHTS)
    chance = torch.where(empty, torch.zeros_like(chance), chance)
    areas = tuple(config.areas or DEFAULT_AREAS)
    errors = errors_of(curves, areas, batch.number_of_cells(), nothing)
    binary = whole_cells(config, order, chance, errors)
    binary = torch.where(empty, torch.zeros_like(binary), binary)
    attributions, remainder = _attributions(departure, found.shares, chance)
    turn = (departure.direction * departure.target.for_answer)[:, None, None]
    signed = attributions * turn
    held = _hold(curves, batch.x[0].numel())
    return Fitted(
        masks=chance,
        scores=torch.where(unread, torch.zeros_like(chance), (1 - order.entry()).clamp(min=0)),
        areas=areas,
        errors=errors,
        area=binary.flatten(1).sum(1) / batch.number_of_cells(),
        diagnostics={
            "converged": held >= WELL_HELD,
            "hold": held,
            "constant_prediction": nothing,
            "remainder": remainder,
            "forward_passes": found.passes + fixed,
            **answers_of(departure),
        },
        binary=binary > 0,
        attributions=attributions * departure.direction[:, None, None],
        answer_attributions=signed,
        deletion_scores=in_the_order_of(signed, found.scores * turn, batch.exists),
        direction=torch.where(nothing, torch.zeros_like(departure.direction), departure.direction),
        winner=torch.zeros_like(departure.score, dtype=torch.long),
        contestants=(ALGORITHM,),
    )


def _fixed_passes(departure: Departure, cells: int, *, noise: bool) -> int:
    """Forward passes an instance that are not the search's: the answer, the baselines, the two curves."""
    baselines = len(departure.perturbations)
    opening = 1 + baselines * (3 if noise and not departure.even else 1)
    return opening + 2 * min(2, baselines) * (len(curve_sizes(cells)) - 1)


def _attributions(departure: Departure, shares: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, d) in the direction of the departure, summing to it, and (B,) the share of it that segments missed."""
    found = (shares * departure.reach[:, None, None]).double()
    wanted = added_up(departure.weights * departure.gap).double()
    scaled, measured = scaled_to(found, wanted, chance.double())
    missed = (wanted - found.flatten(1).sum(1)).abs() / wanted.abs().clamp(min=1e-12)
    remainder = torch.where(measured, missed, torch.ones_like(missed))
    return scaled.to(chance.dtype), remainder.to(chance.dtype)


def scaled_to(found: Tensor, wanted: Tensor, otherwise: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, d) cells with the signs of `found` that sum to (B,) `wanted`, and (B,) whether there are such cells.

    With P and M the sums of the positive and of the negative sizes, positive cells are multiplied by s and negative
    cells by 1 / s, where s P - M / s = wanted; s > 0, so no sign turns. Cells that all have the other sign, or are all
    0, cannot sum to `wanted`: it is then spread in proportion to `otherwise`, all of it.

    Example:
        >>> cells = torch.tensor([[[4.0, -1.0]], [[-4.0, -1.0]]])
        >>> scaled, possible = scaled_to(cells, torch.tensor([0.0, 2.0]), torch.ones(2, 1, 2))
        >>> scaled.tolist(), possible.tolist()
        ([[[2.0, -2.0]], [[1.0, 1.0]]], [True, False])
    """
    raised, lowered = found.clamp(min=0).flatten(1).sum(1), (-found).clamp(min=0).flatten(1).sum(1)
    possible = torch.where(wanted > 0, raised > 0, lowered > 0) & ((wanted != 0) | (raised > 0))
    # The root that adds: the other one loses its digits where the two terms are almost alike.
    root = (wanted.abs() + (wanted.square() + 4 * raised * lowered).sqrt()) / 2
    tiny = torch.finfo(root.dtype).tiny
    up = torch.where(wanted > 0, root / raised.clamp(min=tiny), lowered / root.clamp(min=tiny))
    down = torch.where(wanted > 0, raised / root.clamp(min=tiny), root / lowered.clamp(min=tiny))
    kept = torch.where(found > 0, found * up[:, None, None], found * down[:, None, None])
    size = torch.where(otherwise.flatten(1).any(1)[:, None, None], otherwise, found.abs())
    share = wanted / size.flatten(1).sum(1).clamp(min=tiny)
    return torch.where(possible[:, None, None], kept, size * share[:, None, None]), possible


def _hold(curves: SizeCurves, cells: int) -> Tensor:
    """(B,): the mean of both curves over sizes up to a third of the cells, as the default's contests have it."""
    counted = [k for k, size in enumerate(curves.sizes) if size <= max(1, LARGEST_SHARE * cells)]
    return ((curves.kept[counted] + curves.lost[counted]) / 2).mean(0)
