"""Predictions of a model as probabilities or values, whatever its call."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamask_mlflow.masks.adapted_model import Model
from dynamask_mlflow.masks.binding import Binding, open_bound
from dynamask_mlflow.masks.black_box import as_inputs, frozen, resolve_device
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.forward_only import as_torch_model, unflattened
from dynamask_mlflow.masks.operators import MISSING
from dynamask_mlflow.masks.process_state import untouched_process
from dynamask_mlflow.masks.side_inputs import SideInputs


def predict(
    model: Model,
    x: NDArray[Any] | Tensor,
    *,
    task: str = "classification",
    side: SideInputs | None = None,
    removed: NDArray[np.bool_] | None = None,
    config: ExplainConfig | None = None,
    batch_size: int = 256,
) -> NDArray[np.float32]:
    """Probabilities (N, C) or (N, T, C) for classification, values in the model's own shape for regression.

    Args:
        x: (N, T, d); NaN where a cell was not measured, for models that take it.
        side: what the model takes beside x, of N instances, or of fewer that x repeats over and over.
        removed: (N, T, d) cells that were never measured, as the operator "missing" has it.
        config: `output`, `device`, and how the model is called: `inputs`, `layout`, `output_key`.
    """
    settings = config or ExplainConfig()
    inputs = as_inputs(unflattened(x, settings.shape), nan=True)
    settings = settings.with_options(operators=None if removed is None else (MISSING,), method="nested")
    presence = None if removed is None else torch.as_tensor(~removed).float()
    where = resolve_device(settings.device)
    parts: list[NDArray[np.float32]] = []
    with untouched_process(model), frozen(model, where):
        asked = as_torch_model(model, inputs, task, settings.shape)
        binding = Binding.of(asked, inputs, None, side or SideInputs(), settings)
        black_box, binding = open_bound(binding, task, settings.output, where)
        with torch.no_grad():
            for start in range(0, len(inputs), batch_size):
                rows = torch.arange(start, min(start + batch_size, len(inputs)))
                there = None if presence is None else presence[rows]
                z = binding.inputs_of(rows, where, there)
                bound = black_box.with_model(binding.model_of(rows, where))
                if task == "regression":
                    y = bound.raw(z)
                else:
                    y = bound(z).softmax(-1)
                    y = y[:, 0] if y.shape[1] == 1 else y
                parts.append(y.float().cpu().numpy())
    result = np.concatenate(parts)
    if not np.isfinite(result).all():
        raise ModelError("Expected finite outputs, but the model returned NaN or infinity on the given inputs.")
    return result
