"""A departure of a few sequences, ready to be asked about masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.operators import Batch, parse_operators
from dynamask_mlflow.masks.target_spec import parse_target


def batch_of(x: Tensor, exists: Tensor | None = None) -> Batch:
    return Batch(x, exists, torch.arange(len(x)), Draws(0, x.shape[1], x.shape[2], x.device))


def departure_of(
    model: Any,
    x: Tensor,
    *,
    task: str = "classification",
    operators: Sequence[Any] = ("time_mean", "neutral"),
    target: Any = "auto",
    exists: Tensor | None = None,
    noise: bool = False,
) -> Departure:
    black_box = BlackBox(model, task, "logits" if task == "classification" else "values")
    return Departure.open(
        black_box,
        batch_of(x, exists),
        parse_operators(operators),
        parse_target(target),
        noise_may_replace=noise,
    )
