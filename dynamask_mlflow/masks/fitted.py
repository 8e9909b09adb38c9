"""What a method gives back for one batch, still on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.operators import Batch

Tick = Callable[[], None]
"""Called once for each step of a fit, for the progress bar."""


@dataclass(frozen=True)
class Fitted:
    """masks and scores (B, T, d), areas (A,), errors (B, A), area (B,), diagnostics name -> (B,).

    worth (B, T, d), signed, where the method knows what removing a cell does to the answer; removal (B, T, d), in
    the same units, where it knows which cells to remove together.
    """

    masks: Tensor
    scores: Tensor
    areas: tuple[float, ...]
    errors: Tensor
    area: Tensor
    diagnostics: dict[str, Tensor]
    worth: Tensor | None = None
    removal: Tensor | None = None


class Method(Protocol):
    """Fits one batch. Must not feel the batch's size or order."""

    def __call__(self, black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted: ...
