"""What a reader calls things: classes, steps, channels and their units, and how values become raw ones again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.model_settings import ModelSettings


@dataclass(frozen=True, eq=False)
class Labels:
    """Names and units of an evaluation's page.

    Attributes:
        class_names, time_unit: of the outputs and of one step.
        channel_labels: d names as a reader knows them. units: d, "" where there is none.
        mean, std: (d,) x std + mean are the raw values.
    """

    class_names: tuple[str, ...] | None = None
    time_unit: str = "step"
    channel_labels: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None
    mean: NDArray[np.float64] | None = None
    std: NDArray[np.float64] | None = None

    def raw(self, x: NDArray[Any]) -> NDArray[Any]:
        """Values (..., d) in the units of the data, where the model carries mean and std; else as they are."""
        return x if self.mean is None or self.std is None else (x * self.std + self.mean).astype(np.float32)


def labels_of(settings: ModelSettings | None, config: EvaluationConfig, channel_names: Sequence[str]) -> Labels:
    """The labels of a model, where its channels are those of the data; what the configuration says comes first."""
    if settings is None:
        return Labels(config.class_names, config.time_unit or "step")
    known = settings.channel_names == tuple(channel_names)
    mean, std = _scale(settings) if known else (None, None)
    return Labels(
        class_names=config.class_names or settings.class_names,
        time_unit=config.time_unit or settings.time_unit or "step",
        channel_labels=settings.channel_labels if known else None,
        units=settings.units if known and mean is not None else None,
        mean=mean,
        std=std,
    )


def _scale(settings: ModelSettings) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    stored = settings.preprocessing or {}
    try:
        mean, std = (np.asarray(stored[name], dtype=np.float64) for name in ("mean", "std"))
    except (KeyError, TypeError, ValueError):
        return None, None
    fits = mean.shape == std.shape == (settings.channels,) and np.isfinite(mean).all() and (std > 0).all()
    return (mean, std) if fits else (None, None)
