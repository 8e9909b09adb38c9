"""What can be wrong with a model."""

from __future__ import annotations


class ModelError(ValueError):
    """The model cannot be explained; the message says what was expected, what came, and the way out."""


class LabelsError(ModelError):
    """The model gives labels, or other whole numbers, where logits, probabilities or values are expected."""
