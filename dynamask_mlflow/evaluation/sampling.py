"""Which instances to explain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.sequences import Sequences

Rows = NDArray[np.intp]
Outputs = NDArray[np.floating]


def choose_rows(sequences: Sequences, config: EvaluationConfig, outputs: Callable[[], Outputs], task: str) -> Rows:
    """Positions of the instances to explain. `outputs` is called only where the choice depends on it.

    Outputs are probabilities or values of all instances, NaN where the model failed.
    """
    if config.ids is not None:
        return _by_id(sequences.ids, config.ids, config.hash_ids)
    n = len(sequences)
    count = n if config.instances is None else min(config.instances, n)
    rng = np.random.default_rng(config.seed)
    if count == n or config.sampling == "first":
        return np.arange(count)
    if config.sampling == "random":
        return np.sort(rng.permutation(n)[:count])
    y = outputs()
    if config.sampling == "class" and task == "classification":
        return _in_proportion(predicted_labels(y), count, rng)
    # One from each of `count` equal bins of the ranks; ties and failures (last) in random order.
    order = np.lexsort((rng.random(n), risk(y, task)))
    edges = np.linspace(0, n, count + 1).astype(np.intp)
    return np.sort(order[rng.integers(edges[:-1], edges[1:])])


def predicted_labels(probabilities: Outputs) -> NDArray[np.int64]:
    """One class for each instance (of the mean over the steps); -1 where the model failed."""
    mean = probabilities if probabilities.ndim == 2 else probabilities.mean(axis=1)
    return np.where(np.isfinite(mean).all(axis=-1), np.nan_to_num(mean).argmax(axis=-1), -1)


def risk(y: Outputs, task: str) -> NDArray[np.float64]:
    """One number for each instance: the probability of not being in class 0, or the mean value."""
    wide = y.reshape(len(y), -1, y.shape[-1]) if y.ndim > 1 else y[:, None, None]
    values = 1 - wide[..., 0] if task == "classification" else wide.mean(axis=-1)
    return np.asarray(values.mean(axis=-1), dtype=np.float64)


def _by_id(known: tuple[str, ...], wanted: tuple[str, ...], secret: bool = False) -> Rows:
    position = {name: row for row, name in enumerate(known)}
    missing = [name for name in wanted if name not in position]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
        named = "" if secret else f": {shown}"
        raise ValueError(
            f"Expected ids of the dataset, but {len(missing)} of {len(wanted)} are not among its {len(known)}{named}."
        )
    return np.array([position[name] for name in wanted], dtype=np.intp)


def _in_proportion(labels: NDArray[np.int64], count: int, rng: np.random.Generator) -> Rows:
    """Largest remainders, but every class at least once while there is room for it."""
    classes, sizes = np.unique(labels, return_counts=True)
    exact = count * sizes / sizes.sum()
    quota = np.floor(exact).astype(np.int64)
    if count >= len(classes):
        quota = np.maximum(quota, 1)
    while quota.sum() > count:  # the raised minima are taken from the class furthest above its share
        quota[np.argmax(np.where(quota > 1, quota - exact, -np.inf))] -= 1
    while quota.sum() < count:
        quota[np.argmax(np.where(quota < sizes, exact - quota, -np.inf))] += 1
    chosen = [
        rng.permutation(np.flatnonzero(labels == label))[:size] for label, size in zip(classes, quota, strict=True)
    ]
    return np.sort(np.concatenate(chosen)).astype(np.intp)
