"""The default for one number of the answer: this patient, this risk.

1. Target and reference: how far the target score has departed from its reference answer (`departure`).
2. Attributions: the gradient of the score, integrated from the baselines to the input (`path_attribution`).
3. Ordering: gradients, segments and a nested fit, compared by insertion and deletion (`ordering`).
4. Curves: how much of the departure the first 1, 4, 16, ... cells hold (`mask_size`).
5. Coefficients: the probability that a cell is salient, and the mask of whole cells (`coefficients`).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dynamask_mlflow.masks.area import DEFAULT_AREAS, best_area, extremal_area
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.coefficients import best_cut, coefficients
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.deletion_search import (
    FAST_STEPS,
    STEPS,
    answer_departure,
    deletion_scores,
    in_the_order_of,
    led_by,
)
from dynamask_mlflow.masks.departure import Departure, baseline_operators
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.gradient_scores import AGAINST_OF_VALUES
from dynamask_mlflow.masks.mask_size import SizeCurves, size_curves
from dynamask_mlflow.masks.operators import Batch
from dynamask_mlflow.masks.ordering import CONTESTANTS, Ordering, order_cells
from dynamask_mlflow.masks.path_attribution import (
    FAST_LEVELS,
    FAST_RANDOM_MASKS,
    LEVELS,
    RANDOM_MASKS,
    PathAttributions,
    path_attributions,
)
from dynamask_mlflow.masks.ranking import Order
from dynamask_mlflow.masks.spread import spread_over_baselines
from dynamask_mlflow.masks.target_spec import Target

OPERATORS = ("time_mean", "neutral")
# An ordering whose first cells hold less of the departure than this is reported as not converged.
WELL_HELD = 0.3


def fit_sequence(black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick, target: Target) -> Fitted:
    """Explain one batch; see the module's text."""
    departure = open_departure(black_box, batch, config, target)
    numbers = (FAST_LEVELS, FAST_RANDOM_MASKS) if config.fast else (LEVELS, RANDOM_MASKS)
    paths = path_attributions(departure, *(max(2, n * len(OPERATORS) // len(departure.operators)) for n in numbers))
    departure = replace(departure, usable=paths.usable)
    departures = departure.by_strength()
    ordering = order_cells(departures, paths, fast=config.fast, tick=tick)
    order, by_gradients = ordering.order, ordering.winner == 0
    gradient_score = paths.scores(batch.exists)
    known: Tensor | None = ordering.shares
    if black_box.task == "regression":
        # The contest asks what keeps and what removes the departure; the mask of a value shows both of its sides.
        gradient_score = paths.scores(batch.exists, AGAINST_OF_VALUES)
        order, known = Order.of(gradient_score, batch.exists).where(by_gradients, order), None
    curves = size_curves(departures, order, known)
    unread = paths.magnitude <= 0
    nothing = departure.negligible | unread.flatten(1).all(1) | ~departure.usable.any(0)
    chance = coefficients(order, curves, gradient_score, by_gradients, unread)
    chance = torch.where(nothing[:, None, None], torch.zeros_like(chance), chance)

    areas = tuple(config.areas or DEFAULT_AREAS)
    errors = errors_of(curves, areas, batch.number_of_cells(), nothing)
    binary = whole_cells(config, order, chance, errors)
    binary = torch.where(nothing[:, None, None], torch.zeros_like(binary), binary)
    entry = order.entry()
    scores = torch.where(unread, torch.zeros_like(entry), (1 - entry).clamp(min=0))
    removal = _removal(departure, paths, scores, config, tick)
    spread = channel_spread = None
    if not config.fast:
        spread, channel_spread = spread_over_baselines(chance, paths, batch.exists)
    return Fitted(
        masks=chance,
        scores=scores,
        areas=areas,
        errors=errors,
        area=binary.flatten(1).sum(1) / batch.number_of_cells(),
        diagnostics={
            "converged": ordering.hold >= WELL_HELD,
            "hold": ordering.hold,
            "dead_gradient": unread.flatten(1).all(1),
            "constant_prediction": nothing,
            "remainder": paths.remainder,
            **answers_of(departure),
        },
        binary=binary > 0,
        attributions=_attributions(departure, paths, ordering, chance),
        answer_attributions=removal[0],
        deletion_scores=removal[1],
        direction=torch.where(nothing, torch.zeros_like(departure.direction), departure.direction),
        winner=ordering.winner,
        contestants=CONTESTANTS,
        spread=spread,
        channel_spread=channel_spread,
    )


def open_departure(black_box: BlackBox, batch: Batch, config: ExplainConfig, target: Target) -> Departure:
    has_reference = batch.reference is not None
    noise = not has_reference and config.operators is None
    operators = baseline_operators(batch, config.operators or OPERATORS)
    return Departure.open(black_box, batch, operators, target, noise_may_replace=noise, even=has_reference)


def _attributions(departure: Departure, paths: PathAttributions, ordering: Ordering, chance: Tensor) -> Tensor:
    """(B, T, d), in the target's own sign, summing to the departure.

    A network that latches jumps between two levels, and integrals see nothing of it: there the mask tells which cells
    get what the integrals missed.
    """
    latched = ((ordering.winner > 0) & (chance.flatten(1).sum(1) > 0))[:, None, None]
    attributions = torch.where(latched, paths.spread_by(chance), paths.attributions)
    return attributions * departure.direction[:, None, None]


def _removal(
    departure: Departure, paths: PathAttributions, scores: Tensor, config: ExplainConfig, tick: Tick
) -> tuple[Tensor, Tensor]:
    """(B, T, d) each: contributions to the model's own answer, and the same in the order that turns it soonest.

    Cells are removed by the first operator that is usable, so the search starts from its own attributions.
    """
    answer, operator = answer_departure(departure)
    for_answer = (departure.direction * departure.target.for_answer)[:, None, None]
    rows = torch.arange(len(operator), device=operator.device)
    signed = paths.by_operator[operator, rows] * for_answer
    steps = config.steps or (FAST_STEPS if config.fast else STEPS)
    deletion = led_by(answer, scores * for_answer, deletion_scores(answer, signed, steps, tick))
    return signed, in_the_order_of(signed, deletion, departure.batch.exists)


def answers_of(departure: Departure) -> dict[str, Tensor]:
    """What was explained of each instance, and by which baselines."""
    score = departure.direction * departure.score
    found = {
        "answer": score,
        "reference_answer": score - departure.departure,
        "for_answer": departure.target.for_answer,
        "target_class": departure.target.chosen,
        "noise_baseline": departure.noise,
    }
    if departure.target.black_box.task == "classification":
        found["answer_margin"] = departure.target.for_answer * score
    return found | {f"failed/{op.spec}": ~departure.usable[k] for k, op in enumerate(departure.operators)}


def whole_cells(config: ExplainConfig, order: Order, chance: Tensor, errors: Tensor) -> Tensor:
    """(B, T, d) of 0 and 1: the cut of greatest expected F1, or the area that the settings ask for."""
    if config.area == "auto":
        return best_cut(chance)
    area = torch.full_like(order.number, config.area) if not isinstance(config.area, str) else None
    if area is None:
        grid = errors.new_tensor(config.areas or DEFAULT_AREAS).expand(len(errors), -1)
        area = best_area(grid, errors) if config.area == "best" else extremal_area(grid, errors, config.epsilon)[0]
    return order.whole((area * order.number).round().clamp(min=1))


def errors_of(curves: SizeCurves, areas: tuple[float, ...], number: Tensor, nothing: Tensor) -> Tensor:
    """(B, A) in [0, 1]: the share of the departure that is missing, squared, when the first cells are kept alone."""
    errors = torch.stack([(1 - curves.kept_at(area * number)).square() for area in areas], 1)
    return torch.where(nothing[:, None], torch.zeros_like(errors), errors)
