"""Algorithm 1 of the paper, by descent, for all instances and areas in one batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dynamask_mlflow.masks.area import best_area, extremal_area, penalized_area
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.objective import size_regulariser, time_regulariser
from dynamask_mlflow.masks.operators import Batch, parse_operators
from dynamask_mlflow.masks.perturbation_objective import PerturbationObjective

AREAS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
STEPS = 1000


def fit_paper(black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted:
    """M <- clamp(M - dM), dM <- eta grad(L_e + lambda_a L_a + lambda_c L_c) + alpha dM, lambda_a growing by delta.

    The paper's text is followed with one correction: its update adds the gradient of what is to be minimised, a
    misprint. Sums are sums unless `reduction="mean"`, which is how the released code reads them. Where the text is
    silent:

    - equal cells share the ones of r_a equally. It decides the outcome: all cells start at .5, and a sort that breaks
      their tie by position lights cells that the answer never reads (rare time: AUP .28 instead of 1.00);
    - r_a has round(a T d) ones;
    - dM is what the gradients add up to, also where the clamp cut the mask: with alpha = 1 nothing is ever forgotten,
      so the fit swings between its bounds, and the area of the lowest error varies from one series to the next;
    - the mask is the last iterate, and the error that chooses among the areas is that of the last iterates; where no
      error is below epsilon, the lowest one chooses.
    """
    areas = config.areas or AREAS
    if not isinstance(config.area, str):
        areas = (config.area,)
    x, number = batch.x, len(areas)
    wide = Batch(
        x.repeat(number, 1, 1),
        None if batch.exists is None else batch.exists.repeat(number, 1, 1),
        batch.rows.repeat(number),
        batch.draws,
        pinned=batch.pinned,
    )
    loss = config.loss
    if loss == "auto":
        loss = "squared" if black_box.task == "regression" else "cross_entropy"
    objective = PerturbationObjective.prepare(
        black_box, wide, parse_operators(config.operators or ("blur:1",))[:1], loss, config.deletion
    )
    cells = torch.full((len(wide.x),), float(x.shape[1] * x.shape[2]), dtype=x.dtype, device=x.device)
    if wide.exists is not None:
        cells = wide.exists.flatten(1).sum(1).to(x.dtype)
    share = x.new_tensor(areas).repeat_interleave(len(x))
    mask = _descend(objective, (share * cells).round(), cells, config, tick)
    return _conclude(objective, mask, areas, len(x), config)


def _descend(
    objective: PerturbationObjective, ones: Tensor, cells: Tensor, config: ExplainConfig, tick: Tick
) -> Tensor:
    steps = config.steps or STEPS
    rate = config.learning_rate or 1.0
    exists = objective.batch.exists
    mean = config.reduction == "mean"
    _, times, width = objective.discrepancy.reference.shape
    # The log-loss has one term a time, the other errors one for each output.
    terms = times if objective.discrepancy.loss == "log_loss" else times * width
    outputs = terms if mean else 1
    per_cell = (cells if mean else torch.ones_like(cells))[:, None, None]
    mask = torch.full_like(objective.batch.x, 0.5)
    if exists is not None:
        mask = mask * exists
    change = torch.zeros_like(mask)
    growth = math.exp(math.log(config.dilation) / steps)
    size_weight = config.size_weight
    for step in range(steps):
        gradient = objective.error_gradient(mask, step) / outputs
        gradient = gradient + size_weight / per_cell * size_regulariser(mask, ones, exists)[1]
        if config.time_weight:
            gradient = gradient + config.time_weight / per_cell * time_regulariser(mask, exists)[1]
        change = rate * gradient + config.momentum * change
        mask = (mask - change).clamp(0, 1)
        if exists is not None:
            mask = mask * exists
        size_weight *= growth
        tick()
    return mask


def _conclude(
    objective: PerturbationObjective, mask: Tensor, areas: tuple[float, ...], batch: int, config: ExplainConfig
) -> Fitted:
    number = len(areas)
    with torch.no_grad():
        error = objective.error(mask)
    scale = objective.empty[0].clamp(min=1e-12)
    errors = (error / scale).view(number, batch).T
    masks = mask.view(number, batch, *mask.shape[1:])
    grid = mask.new_tensor(areas).expand(batch, -1)
    missed = torch.zeros(batch, dtype=torch.bool, device=mask.device)
    if not isinstance(config.area, str) or config.area == "best":
        area = best_area(grid, -errors if config.deletion else errors)
    elif config.area == "extremal":
        area, missed = extremal_area(grid, errors, config.epsilon)
        area = torch.where(missed, best_area(grid, errors), area)
    else:
        lost = (1 - errors.clamp(max=1)) if config.deletion else errors
        area, _ = penalized_area(grid, lost.clamp(min=0).sqrt())
    chosen = (grid == area[:, None]).to(torch.int8).argmax(1)
    rows = torch.arange(batch, device=mask.device)
    empty = objective.empty[0].view(number, batch)[0]
    reference = objective.discrepancy.reference.reshape(number, batch, -1)[0]
    return Fitted(
        masks=masks[chosen, rows],
        scores=masks.mean(0),
        areas=areas,
        errors=errors,
        area=area,
        diagnostics={
            "converged": torch.ones_like(missed),
            "dead_gradient": (masks == masks[:, :, :1, :1]).flatten(2).all(2).all(0),
            "constant_prediction": empty <= 1e-9 * reference.square().sum(1) + 1e-12,
            "plateau": (errors.amax(1) - errors.amin(1)) < 0.05,
            "epsilon_missed": missed,
            "empty_error": empty,
        },
    )
