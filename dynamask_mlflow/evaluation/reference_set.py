"""The reference sequences that a logged model carries: other instances, or their mean, to explain answers against."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow._files import atomic_file
from dynamask_mlflow._npz import load_arrays

FILE_NAME = "reference.npz"
MOST = 300
KINDS = ("sequences", "mean")


def reference_set(reference: ArrayLike, kind: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """(M, T, d): at most MOST sequences, evenly spaced over those given, or their mean alone.

    Args:
        reference: (N, T, d) sequences such as the model was trained on, or their mean (T, d).
        kind: "sequences", or "mean", which keeps no single sequence.
        shape: (T, d) of the model.
    """
    if kind not in KINDS:
        raise ValueError(f"Expected reference_kind to be one of {KINDS}, but got {kind!r}.")
    values = np.asarray(reference, dtype=np.float32)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[1:] != tuple(shape) or not len(values):
        raise ValueError(f"Expected reference of shape (M, {shape[0]}, {shape[1]}), but got {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError("Expected finite reference sequences, but some values are NaN or infinite.")
    if kind == "mean":
        return np.asarray(values.mean(axis=0, keepdims=True), dtype=np.float32)
    rows = np.unique(np.linspace(0, len(values) - 1, min(MOST, len(values))).round().astype(np.intp))
    return np.ascontiguousarray(values[rows])


def save_reference(values: NDArray[np.float32], folder: str | os.PathLike[str]) -> None:
    with atomic_file(Path(folder) / FILE_NAME) as file:
        np.savez_compressed(file, reference=values)


def load_reference(folder: str | os.PathLike[str]) -> NDArray[Any] | None:
    """What `save_reference` wrote; None where the model has none."""
    path = Path(folder) / FILE_NAME
    if not path.is_file():
        return None
    arrays = load_arrays(path)
    if set(arrays) != {"reference"} or arrays["reference"].ndim != 3:
        raise ValueError(f"Expected reference sequences (M, T, d) at {path}, but got {sorted(arrays)}.")
    return arrays["reference"]
