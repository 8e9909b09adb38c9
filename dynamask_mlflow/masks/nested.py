"""The default method: one number of the answer, or the answers at every step; forward passes without gradients."""

from __future__ import annotations

import torch

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.every_step import fit_every_step
from dynamask_mlflow.masks.fitted import Fitted, Tick
from dynamask_mlflow.masks.forward_answer import fit_forward
from dynamask_mlflow.masks.operators import Batch
from dynamask_mlflow.masks.select_algorithm import select_algorithm
from dynamask_mlflow.masks.sequence_answer import fit_sequence
from dynamask_mlflow.masks.target_spec import parse_target


def fit_nested(black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted:
    target = parse_target(config.target, config.class_names)
    if not black_box.differentiable:
        return fit_forward(black_box, batch, config, tick)
    with torch.no_grad():
        steps = black_box(batch.x[:1]).shape[1]
    if select_algorithm(config, target, steps, black_box.task, batch.x.shape[1]) == "sequence":
        return fit_sequence(black_box, batch, config, tick, target)
    return fit_every_step(black_box, batch, config, tick)
