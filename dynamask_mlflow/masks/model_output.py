"""The one tensor of an output that is to be explained: outputs may be tuples, dictionaries or objects with fields."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from torch import Tensor, nn

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


_DEEPEST = 4  # levels of outputs within outputs that are looked at
_logger = logging.getLogger(__name__)
_said: set[str] = set()


def read_output(raw: Any, key: str | int | None = None) -> Tensor:
    """The tensor at `key`: a name, a position in a tuple, or a path such as "heads.mortality" or "1.logits".

    Without a key it is the one of a known name, the first of a tuple, or the only one there is.
    """
    if isinstance(raw, Tensor):
        if key is not None:
            raise ModelError(f"Expected an output with the key {key!r}, but the model returns one tensor.")
        return raw
    if key is not None:
        return _at(raw, key)
    fields = _fields(raw)
    for name in NAMES:
        if isinstance(fields.get(name), Tensor):
            return fields[name]  # type: ignore[no-any-return]
    if isinstance(raw, tuple | list):
        found = _first_of(raw)
        if found is not None:
            return found
    parts = _parts(raw)
    floating = {name: value for name, value in parts.items() if value.is_floating_point() and value.ndim}
    named = [value for name, value in floating.items() if str(name).rpartition(".")[2] in NAMES[:2]]
    if len(floating) == 1 or len(named) == 1:
        return (named or list(floating.values()))[0]
    if not parts:
        raise ModelError(f"Expected the model to return one tensor, but got {type(raw).__name__} without any.")
    raise ModelError(
        f"Expected to know which part of the model's output to explain, but its keys are {_listed(parts)}: say which "
        "with output_key."
    )


def _at(raw: Any, key: str | int) -> Tensor:
    fields = _fields(raw)
    if isinstance(key, int) and key < 0 and isinstance(raw, tuple | list):
        key += len(raw)
    found = fields.get(key)
    if isinstance(found, Tensor):
        return found
    parts = _parts(raw)
    if str(key) in parts:
        return parts[str(key)]
    raise ModelError(f"Expected an output with the key {key!r}, but its keys are {_listed(parts)}.")


def _first_of(raw: Sequence[Any]) -> Tensor | None:
    """The first tensor of a tuple; where others look just like it, that is said, since a later one may be meant.

    None where something else that holds tensors stands before it.
    """
    first = next((value for value in raw if isinstance(value, Tensor) or _parts(value)), None)
    if not isinstance(first, Tensor):
        return None
    floating = [value for value in raw if isinstance(value, Tensor) and value.is_floating_point() and value.ndim]
    if not floating:
        return None
    alike = sum(value.shape == floating[0].shape for value in floating)
    if alike > 1:
        text = (
            f"dynamask: the model returns {alike} tensors of one shape; the first of them is explained. Say which with "
            "output_key, a position such as 1, or -1 for the last."
        )
        if text not in _said:
            _said.add(text)
            _logger.warning(text)
    return floating[0]


def _fields(raw: Any) -> dict[str | int, Any]:
    if isinstance(raw, Mapping):
        return dict(raw)
    if isinstance(raw, tuple | list):
        named = getattr(raw, "_fields", ())
        return {**dict(enumerate(raw)), **dict(zip(named, raw, strict=False))}
    return dict(getattr(raw, "__dict__", {}))


def _parts(raw: Any, depth: int = 0) -> dict[str | int, Tensor]:
    """All tensors in an output by their paths; those of the first level by their keys."""
    found: dict[str | int, Tensor] = {}
    if isinstance(raw, nn.Module | type | ModuleType):
        return found
    fields = _fields(raw)
    if depth and isinstance(raw, tuple) and hasattr(raw, "_fields"):
        fields = {name: value for name, value in fields.items() if isinstance(name, str)}
    for name, value in fields.items():
        if isinstance(value, Tensor):
            found[name if depth == 0 else str(name)] = value
        elif depth < _DEEPEST:
            found |= {f"{name}.{inner}": part for inner, part in _parts(value, depth + 1).items()}
    return found


def _listed(parts: Mapping[str | int, Tensor]) -> str:
    outer_first = sorted(parts.items(), key=lambda pair: str(pair[0]).count("."))
    shown = [f"{name!r} {tuple(value.shape)}" for name, value in outer_first]
    return ", ".join([*shown[:12], *(["..."] if len(shown) > 12 else [])]) or "none that hold a tensor"
