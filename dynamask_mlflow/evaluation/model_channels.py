"""The channels of the data beside those that a model was logged with."""

from __future__ import annotations

import logging
from dataclasses import replace

from dynamask_mlflow.evaluation.model_settings import ModelSettings
from dynamask_mlflow.evaluation.sequences import Sequences

_logger = logging.getLogger(__name__)


def as_the_model_names_them(sequences: Sequences, settings: ModelSettings | None) -> Sequences:
    """The model's channel names where the dataset has none of its own; never another shape or a mere permutation."""
    if settings is None:
        return sequences
    shape, wanted = sequences.x.shape[1:], (settings.steps, settings.channels)
    if shape != wanted:
        raise ValueError(f"Expected sequences of shape (T, d) = {wanted}, as the model takes them, but got {shape}.")
    if settings.channel_names is None:
        return sequences
    ours, theirs = sequences.channel_names, settings.channel_names
    if ours == tuple(f"channel_{i}" for i in range(len(ours))):
        sequences = replace(sequences, channel_names=theirs)
    elif ours != theirs and set(ours) == set(theirs):
        place = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        raise ValueError(
            "Expected the channels in the order in which the model takes them, but channel "
            f"{place} is {ours[place]!r} instead of {theirs[place]!r}."
        )
    elif ours != theirs:
        _logger.warning("dynamask: the dataset's channels %s are not those of the model, %s.", ours, theirs)
    return sequences
