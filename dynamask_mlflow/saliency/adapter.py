"""From scores to what `explain` returns: the mask of the appendix, and the error curve that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dynamask_mlflow.masks.area import DEFAULT_AREAS
from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.fitted import Fitted, Method, Tick
from dynamask_mlflow.masks.operators import Batch, parse_operators
from dynamask_mlflow.masks.perturbation_objective import PerturbationObjective
from dynamask_mlflow.masks.ranking import top_share
from dynamask_mlflow.saliency.question import Question, ask


@dataclass(frozen=True, eq=False)
class Setting:
    """What a method may use beside the question.

    Attributes:
        baseline: (B, T, d) the input without information: the first operator of the configuration at M = 0,
            else that of the method.
    """

    question: Question
    x: Tensor
    exists: Tensor | None
    baseline: Tensor
    config: ExplainConfig
    tick: Tick


Scores = Callable[[Setting], Tensor]


def as_method(scores: Scores, *, is_mask: bool = False, baseline: str = "zero") -> Method:
    """A method of `explain` from a function that gives scores, or with `is_mask` masks.

    `baseline` is the operator that empties the input where the configuration names none.
    """

    def method(black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted:
        question = _ask(black_box, batch)
        setting = Setting(question, batch.x, batch.exists, _baseline(batch, config, baseline), config, tick)
        r = scores(setting).to(batch.x.dtype)
        return _conclude(black_box, batch, config, r, is_mask)

    return method


def _ask(black_box: BlackBox, batch: Batch) -> Question:
    model = black_box.model
    with torch.no_grad():
        one_answer = black_box(batch.x[:1]).shape[1] == 1

    def outputs(x: Tensor) -> Tensor:
        """(B, K) is K classes or K times. What it is was seen at full length; a prefix of K steps must not
        confuse.
        """
        y: Tensor = model(x)
        if y.ndim == 2:
            y = y[:, None] if one_answer else y[:, :, None]
        return y

    plain = BlackBox(outputs, black_box.task, black_box.output)
    module = model if isinstance(model, nn.Module) else None
    return ask(plain, batch.x, black_box.task == "classification", batch.exists, module)


def _conclude(black_box: BlackBox, batch: Batch, config: ExplainConfig, r: Tensor, is_mask: bool) -> Fitted:
    """The appendix's mask of the scores, and the error when their best cells alone are kept, area by area."""
    x, exists = batch.x, batch.exists
    if exists is not None:
        low = torch.where(exists, r, torch.inf).amin((1, 2), keepdim=True)
        r = torch.where(exists, r, low)
    low, high = r.amin((1, 2), keepdim=True), r.amax((1, 2), keepdim=True)
    mask = r if is_mask else torch.where(high > low, (r - low) / (high - low).clamp(min=1e-30), 0.0)
    if exists is not None:
        mask = mask * exists
    areas = config.areas or DEFAULT_AREAS
    operators = parse_operators(config.operators or ("time_mean",))[:1]
    objective = PerturbationObjective.prepare(black_box, batch, operators, config.loss, config.deletion)
    with torch.no_grad():
        curve = [objective.error(top_share(r, area, exists)) for area in areas]
    scale = objective.empty[0].clamp(min=1e-12)
    if isinstance(config.area, str):
        count = exists.flatten(1).sum(1) if exists is not None else x[0].numel()
        area = (mask >= 0.5).flatten(1).sum(1).to(x.dtype) / count
    else:
        area = torch.full((len(x),), config.area, dtype=x.dtype, device=x.device)
        mask = top_share(r, config.area, exists)
    flat = (high == low)[:, 0, 0]
    return Fitted(
        masks=mask,
        scores=r,
        areas=tuple(areas),
        errors=torch.stack(curve, 1) / scale[:, None],
        area=area,
        diagnostics={
            "converged": torch.ones_like(flat),
            "dead_gradient": flat,
            "constant_prediction": objective.empty[0] <= 1e-12,
            "plateau": torch.zeros_like(flat),
            "empty_error": objective.empty[0],
        },
    )


def _baseline(batch: Batch, config: ExplainConfig, otherwise: str) -> Tensor:
    """The input without information, as the first operator has it; cells that do not exist stay."""
    operator = parse_operators(config.operators or (otherwise,))[0]
    nothing = torch.zeros_like(batch.x)
    return batch.settled(nothing, *operator.prepare(batch, 0)(nothing))[0].detach()
