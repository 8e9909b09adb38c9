"""Reference data for methods that need more than the sequence itself.

AFO draws replacements from it, GradSHAP its baselines; FIT and RETAIN train a model of their own on it.
Without it the first two make do with the sequence itself, the last two with the sequences that are being
explained, and then an instance does feel its neighbours.

    with background(x_train):
        masks = explain(model, x_test, method="fit")
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Trained = TypeVar("Trained")


@dataclass(frozen=True, eq=False)
class Background:
    """Sequences x (M, T, d), and the helper models that were trained on them."""

    x: Tensor
    memory: dict[Hashable, Any] = field(default_factory=dict)

    def remember(self, key: Hashable, make: Callable[[], Trained]) -> Trained:
        """What `make` gives, made once for each key."""
        if key not in self.memory:
            self.memory[key] = make()
        made: Trained = self.memory[key]
        return made


_current: ContextVar[Background | None] = ContextVar("background", default=None)


@contextmanager
def background(x: NDArray[Any] | Tensor) -> Iterator[Background]:
    """Use x (M, T, d) as reference data inside the `with` block.

    Example:
        >>> import torch
        >>> from dynamask_mlflow import explain
        >>> x = torch.randn(8, 5, 2, generator=torch.Generator().manual_seed(0))
        >>> with background(x):
        ...     masks = explain(lambda x: x[:, :, 0].sum(1), x[:2], task="regression", method="gs", progress=False)
        >>> masks.scores.shape
        (2, 5, 2)
    """
    values = torch.as_tensor(np.asarray(x) if not isinstance(x, Tensor) else x.detach()).float()
    if values.ndim != 3 or 0 in values.shape or not bool(torch.isfinite(values).all()):
        raise ValueError(f"Expected finite reference data of shape (M, T, d), but got {tuple(values.shape)}.")
    reference = Background(values)
    token = _current.set(reference)
    try:
        yield reference
    finally:
        _current.reset(token)


def background_in_force(x: Tensor) -> Background | None:
    """The reference data of the `with` block around us, if any; checked to fit sequences x."""
    found = _current.get()
    if found is not None and found.x.shape[2] != x.shape[2]:
        raise ValueError(f"Expected reference data with {x.shape[2]} channels, but got {found.x.shape[2]}.")
    return found


def background_or(x: Tensor) -> Background:
    """The reference data in force, or the sequences x themselves."""
    return background_in_force(x) or Background(x)
