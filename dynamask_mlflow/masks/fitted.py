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

    Where the method knows them: binary (B, T, d), the mask of whole cells, else the cells of a coefficient of at least
    .5; attributions, answer_attributions and deletion_scores (B, T, d), see `Masks`; direction (B,); winner (B,), a
    place in `contestants`; spread (B, T, d) and channel_spread (B, d). static_masks and static_attributions (B, s)
    are of static features, where the model takes any.
    """

    masks: Tensor
    scores: Tensor
    areas: tuple[float, ...]
    errors: Tensor
    area: Tensor
    diagnostics: dict[str, Tensor]
    binary: Tensor | None = None
    attributions: Tensor | None = None
    answer_attributions: Tensor | None = None
    deletion_scores: Tensor | None = None
    direction: Tensor | None = None
    winner: Tensor | None = None
    contestants: tuple[str, ...] = ()
    spread: Tensor | None = None
    channel_spread: Tensor | None = None
    static_masks: Tensor | None = None
    static_attributions: Tensor | None = None


class Method(Protocol):
    """Fits one batch. Must not feel the batch's size or order."""

    def __call__(self, black_box: BlackBox, batch: Batch, config: ExplainConfig, tick: Tick) -> Fitted: ...
