"""The one tensor of an output that is to be explained: outputs may be tuples, dictionaries or objects with fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from dynamask_mlflow.masks.errors import ModelError

NAMES = (
    "logits",
    "prediction_logits",
    "prediction_outputs",
    "regression_outputs",
    "predictions",
    "prediction",
    "probabilities",
    "probs",
    "y_hat",
    "forecast",
    "output",
    "outputs",
    "last_hidden_state",
)
"""Looked for in this order where no key is given."""


def read_output(raw: Any, key: str | int | None = None) -> Tensor:
    """The tensor at `key`: a name, or a position in a tuple; None looks for a known name, or takes a tuple's first."""
    if isinstance(raw, Tensor):
        if key is not None:
            raise ModelError(f"Expected an output with the key {key!r}, but the model returns one tensor.")
        return raw
    fields = _fields(raw)
    tensors = {name: value for name, value in fields.items() if isinstance(value, Tensor)}
    if key is not None:
        if key in tensors:
            return tensors[key]
        raise ModelError(f"Expected an output with the key {key!r}, but its keys are {_listed(tensors)}.")
    for name in NAMES:
        if name in tensors:
            return tensors[name]
    floating = [value for value in tensors.values() if value.is_floating_point() and value.ndim]
    if floating and (len(floating) == 1 or isinstance(raw, tuple | list)):
        return floating[0]
    if not tensors:
        raise ModelError(f"Expected the model to return one tensor, but got {type(raw).__name__} without any.")
    raise ModelError(
        f"Expected to know which part of the model's output to explain, but its keys are {_listed(tensors)}: say which "
        "with output_key."
    )


def _fields(raw: Any) -> dict[str | int, Any]:
    if isinstance(raw, Mapping):
        return dict(raw)
    if isinstance(raw, tuple | list):
        named = getattr(raw, "_fields", ())
        return {**dict(enumerate(raw)), **dict(zip(named, raw, strict=False))}
    return dict(getattr(raw, "__dict__", {}))


def _listed(tensors: Mapping[str | int, Tensor]) -> str:
    return ", ".join(f"{name!r} {tuple(value.shape)}" for name, value in tensors.items()) or "none that hold a tensor"
