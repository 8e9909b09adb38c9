"""What masks are worth: shifts of the prediction without the salient cells, and the same for random cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.metrics.erasure import ERASER_AREAS
from dynamask_mlflow.tracking.sequences import Sequences

Floats = NDArray[np.floating[Any]]
Predict = Callable[[NDArray[np.float32]], Floats]
CHUNK = 256  # instances at a time: memory does not grow with their number


@dataclass(frozen=True, eq=False)
class Scores:
    """Numbers of one method on N instances.

    Attributes:
        each: name -> (N,). Shifts have a twin `<name>/random` for as many cells drawn at random.
        curves: name -> (A,) means at the areas of the curves, with their random twins.
        without: the predictions after the salient cells were replaced by their average over time.
    """

    each: Mapping[str, NDArray[np.float64]]
    curves: Mapping[str, NDArray[np.float64]]
    without: Floats

    def summary(self) -> dict[str, float]:
        """Means over the instances; what is undefined everywhere is left out."""
        means = {name: values[np.isfinite(values)] for name, values in self.each.items()}
        return {name: float(values.mean()) for name, values in means.items() if len(values)}


def score(
    masks: Masks,
    sample: Sequences,
    outputs: Floats,
    predict: Predict,
    *,
    task: str,
    curve_areas: Sequence[float],
    seed: int,
) -> Scores:
    """Score masks of a sample whose predictions are `outputs`."""
    parts = []
    for start in range(0, len(sample), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(sample)))
        # One stream for each chunk: the random cells of an instance do not depend on how many follow it.
        rng = np.random.default_rng([seed, start])
        parts.append(_score_chunk(masks[rows], sample.take(rows), outputs[rows], predict, task, curve_areas, rng))
    each = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
    curves = {name: np.concatenate([part[1][name] for part in parts], axis=1).mean(axis=1) for name in parts[0][1]}
    return Scores(each, curves, np.concatenate([part[2] for part in parts]))


def _score_chunk(
    masks: Masks,
    sample: Sequences,
    outputs: Floats,
    predict: Predict,
    task: str,
    curve_areas: Sequence[float],
    rng: np.random.Generator,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]], Floats]:
    where = sample.eligible
    cells = where.sum(axis=(1, 2))
    entropy = metrics.entropy(masks.masks, where)
    each = {
        "area": masks.area.astype(np.float64),
        "entropy": entropy,
        "entropy_normalized": entropy / (cells * np.log(2)),
        "information": metrics.information(masks.masks, where),
        "information_normalized": metrics.information_ratio(masks.masks, where),
    }
    curves: dict[str, NDArray[np.float64]] = {}
    without = outputs
    for suffix, ranking in (("", masks.scores), ("/random", rng.random(masks.scores.shape))):
        erase = Eraser(sample, outputs, predict, task, ranking, where)
        shifts, after = erase.removed(masks.area)
        each |= {f"{name}{suffix}": values for name, values in shifts.items()}
        each |= {f"{name}{suffix}": values for name, values in erase.eraser().items()}
        if not suffix:
            without = after
        points = [erase.removed(np.full(len(sample), area))[0] for area in curve_areas]
        if points:
            curves |= {f"{name}{suffix}": np.stack([p[name] for p in points]) for name in points[0]}
    return each, curves, without


def answers_every_step(outputs: Floats, task: str, steps: int) -> bool:
    """Whether outputs are (N, T, C) probabilities, or (N, T) or (N, T, C) values."""
    return outputs.ndim == 3 if task == "classification" else outputs.ndim > 1 and outputs.shape[1] == steps


@dataclass(frozen=True, eq=False)
class Eraser:
    """Predictions without the best cells of a ranking, or with them alone."""

    sample: Sequences
    outputs: Floats
    predict: Predict
    task: str
    ranking: NDArray[Any]
    where: NDArray[np.bool_]

    def best(self, areas: Floats) -> NDArray[np.bool_]:
        chosen = [
            metrics.top_cells(ranking, float(area), where)
            for ranking, area, where in zip(self.ranking, areas, self.where, strict=True)
        ]
        return np.stack(chosen)

    def replaced(self, cells: NDArray[np.bool_]) -> Floats:
        x = metrics.replace_by_time_mean(self.sample.x, cells, self.where)
        return self.predict(x.astype(np.float32))

    def removed(self, areas: Floats) -> tuple[dict[str, NDArray[np.float64]], Floats]:
        """The shift of the prediction when each instance loses its best cells."""
        after = self.replaced(self.best(areas))
        return self.shift(after), after

    def shift(self, after: Floats) -> dict[str, NDArray[np.float64]]:
        if self.task == "regression":
            return {"squared_error": self.each(metrics.squared_error_shift, after, per_instance=True)}
        options = {"multiclass": True, "per_instance": True}
        return {
            "ce": self.each(metrics.cross_entropy_shift, after, **options),
            "acc": self.each(metrics.accuracy_shift, after, **options),
        }

    def eraser(self) -> dict[str, NDArray[np.float64]]:
        """Comprehensiveness and sufficiency: mean loss over five areas without the best cells, and with them
        alone.

        The loss is that of the predicted class's probability; for regression the squared error.
        """
        lost: dict[str, list[NDArray[np.float64]]] = {"comprehensiveness": [], "sufficiency": []}
        for area in ERASER_AREAS:
            best = self.best(np.full(len(self.sample), area))
            for name, gone in (("comprehensiveness", best), ("sufficiency", ~best & self.where)):
                after = self.replaced(gone)
                if self.task == "regression":
                    lost[name].append(self.each(metrics.squared_error_shift, after, per_instance=True))
                else:
                    lost[name].append(self.each(metrics.probability_drop, after, multiclass=True))
        return {name: np.mean(values, axis=0) for name, values in lost.items()}

    def each(self, measure: Callable[..., Any], after: Floats, **options: Any) -> NDArray[np.float64]:
        """A measure of each instance, over the steps that exist where the model answers at every step."""
        lengths = self.sample.lengths
        if lengths is None or not answers_every_step(after, self.task, self.sample.x.shape[1]):
            return np.asarray(measure(self.outputs, after, **options), dtype=np.float64)
        result = np.empty(len(after))
        for length in np.unique(lengths):
            rows = lengths == length
            result[rows] = measure(self.outputs[rows, :length], after[rows, :length], **options)
        return result
