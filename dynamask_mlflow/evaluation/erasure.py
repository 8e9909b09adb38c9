"""Predictions without the best cells of a ranking, or with them alone. Each perturbed input is asked about once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics
from dynamask_mlflow._ranking import count_of, places
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.metrics.erasure import ERASER_AREAS

Floats = NDArray[np.floating[Any]]
Each = dict[str, NDArray[np.float64]]


class Predict(Protocol):
    """Predictions for x (K N, T, d), K perturbations of the N instances of a sample; or with cells never measured."""

    def __call__(
        self, x: NDArray[np.float32], sample: Sequences, removed: NDArray[np.bool_] | None = None
    ) -> Floats: ...


_ROWS = 1024  # perturbed inputs in one question: the model is prepared for a question, not for an input


def answers_every_step(outputs: Floats, task: str, steps: int) -> bool:
    """Whether outputs are (N, T, C) probabilities, or (N, T) or (N, T, C) values."""
    return outputs.ndim == 3 if task == "classification" else outputs.ndim > 1 and outputs.shape[1] == steps


def _places(ranking: NDArray[Any], where: NDArray[np.bool_]) -> NDArray[np.int32]:
    """(N, T d): 0 for the best cell."""
    return places(ranking.reshape(len(ranking), -1), where.reshape(len(ranking), -1))


@dataclass(frozen=True, eq=False)
class Eraser:
    """A sample with its predictions `outputs`, and a ranking of its cells `where` they may be salient.

    `removal` ranks them by what the prediction loses without them, where that is another question. With `missing`,
    cells are removed from the model's own mask as well.
    """

    sample: Sequences
    outputs: Floats
    predict: Predict
    task: str
    ranking: NDArray[Any]
    where: NDArray[np.bool_]
    removal: NDArray[Any] | None = None
    missing: bool = False

    @cached_property
    def _place(self) -> NDArray[np.int32]:
        return _places(self.ranking, self.where)

    @cached_property
    def _removal_place(self) -> NDArray[np.int32]:
        same = self.removal is None or self.removal is self.ranking
        return self._place if same else _places(np.asarray(self.removal), self.where)

    @cached_property
    def _stand_in(self) -> NDArray[np.float32]:
        """What cells are replaced by: their channel's average over time (section 3.3 of the paper)."""
        everything = np.ones(self.sample.x.shape, dtype=np.bool_)
        return metrics.replace_by_time_mean(self.sample.x, everything, self.where).astype(np.float32)

    def best(self, areas: Floats | float) -> NDArray[np.bool_]:
        """(N, T, d): the round(area n) best of the n cells of each instance; one area, or one for each."""
        return self._first(self._place, areas)

    def costliest(self, areas: Floats | float) -> NDArray[np.bool_]:
        """The same by what the prediction loses without them."""
        return self._first(self._removal_place, areas)

    def _first(self, place: NDArray[np.int32], areas: Floats | float) -> NDArray[np.bool_]:
        counts = count_of(areas, self.where.sum(axis=(1, 2)))
        return np.asarray(place < counts[:, None]).reshape(self.where.shape)

    def answers(self, removals: Iterable[NDArray[np.bool_]]) -> list[Floats]:
        """The prediction for each set of cells that is replaced."""
        at_once = max(1, _ROWS // len(self.sample))
        x = np.empty((at_once, *self.sample.x.shape), dtype=np.float32)
        gone = np.empty(x.shape, dtype=np.bool_) if self.missing else None
        found: list[Floats] = []
        rest = iter(removals)
        while several := list(islice(rest, at_once)):
            for k, cells in enumerate(several):
                np.copyto(x[k], self.sample.x)
                if gone is None:
                    np.copyto(x[k], self._stand_in, where=cells)
                else:
                    gone[k] = cells
            asked = x[: len(several)].reshape(-1, *x.shape[2:])
            removed = None if gone is None else gone[: len(several)].reshape(asked.shape)
            found += np.split(self.predict(asked, self.sample, removed), len(several))
        return found

    def removed(self, areas: Floats | float) -> tuple[Each, Floats]:
        """The shift of the prediction when each instance loses its best cells, and the prediction then."""
        (after,) = self.answers([self.best(areas)])
        return self.shift(after), after

    def along(self, curve_areas: Sequence[float]) -> tuple[Each, Each]:
        """Comprehensiveness and sufficiency, name -> (N,); and shifts at the areas of the curves, name -> (A, N).

        The first two are mean losses over five areas, without the costliest cells and with the best alone. The loss is
        that of the predicted class's probability; for regression the squared error.
        """
        grid = sorted({*curve_areas, *ERASER_AREAS})

        def removals() -> Iterator[NDArray[np.bool_]]:
            yield from (self.costliest(area) for area in grid)
            yield from (~self.best(area) & self.where for area in ERASER_AREAS)

        answers = self.answers(removals())
        without, alone = dict(zip(grid, answers, strict=False)), answers[len(grid) :]
        points = [self.shift(without[area]) for area in curve_areas]
        eraser = {
            "comprehensiveness": np.mean([self.loss(without[area]) for area in ERASER_AREAS], axis=0),
            "sufficiency": np.mean([self.loss(after) for after in alone], axis=0),
        }
        return eraser, {name: np.stack([point[name] for point in points]) for name in (points[0] if points else ())}

    def shift(self, after: Floats) -> Each:
        if self.task == "regression":
            return {"squared_error": self.each(metrics.squared_error_shift, after, per_instance=True)}
        options = {"multiclass": True, "per_instance": True}
        return {
            "ce": self.each(metrics.cross_entropy_shift, after, **options),
            "acc": self.each(metrics.accuracy_shift, after, **options),
        }

    def loss(self, after: Floats) -> NDArray[np.float64]:
        if self.task == "regression":
            return self.each(metrics.squared_error_shift, after, per_instance=True)
        return self.each(metrics.probability_drop, after, multiclass=True)

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
