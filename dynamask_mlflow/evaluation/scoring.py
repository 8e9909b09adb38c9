"""Scores of masks: how predictions shift without the best cells, or with them alone, and the same for random cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics
from dynamask_mlflow._ranking import count_of, places
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.masks.target_spec import Target, parse_target
from dynamask_mlflow.metrics.erasure import ERASER_AREAS
from dynamask_mlflow.metrics.shift import PROBABILITY_EPSILON, predicted_class

Floats = NDArray[np.floating[Any]]
Each = dict[str, NDArray[np.float64]]

CHUNK = 256  # instances at a time: memory does not grow with their number
_ROWS = 1024  # perturbed inputs in one question: the model is prepared for a question, not for an input


@dataclass(frozen=True, eq=False)
class Scores:
    """Numbers of one method on N instances.

    Attributes:
        each: name -> (N,). Shifts have a twin `<name>/random` for as many cells drawn at random, NaN for
            instances outside the control, and `<name>/other` for as many cells of another instance's mask.
            `ce_shift` is CE above that of the unperturbed predictions, `answer_shift` how far the explained answer
            moves back towards its reference.
        curves: name -> (A,) means at the areas of the curves, with their random twins.
        without: the predictions after the salient cells were replaced by their average over time.
        intervals: name -> (2, A) a 95 % interval over the instances around each point of a curve.
    """

    each: Mapping[str, NDArray[np.float64]]
    curves: Mapping[str, NDArray[np.float64]]
    without: Floats
    intervals: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def summary(self) -> dict[str, float]:
        """Means over the instances; what is undefined everywhere is left out."""
        means = {name: metrics.mean_of_known(values) for name, values in self.each.items()}
        return {name: mean for name, mean in means.items() if np.isfinite(mean)}


@dataclass(frozen=True)
class Controls:
    """What masks are compared with.

    Attributes:
        curve_areas: areas of the curves.
        seed: of the random cells.
        instances: curves, comprehensiveness and sufficiency of random cells, nine tenths of the work for a mere
            yardstick, are of so many instances, spread evenly over the sample. Random cells of each mask's own area are
            of all.
    """

    curve_areas: Sequence[float]
    seed: int = 0
    instances: int = 128


def score(
    masks: Masks,
    sample: Sequences,
    outputs: Floats,
    predict: Predict,
    task: str,
    controls: Controls | None = None,
) -> Scores:
    """Score masks of a sample whose predictions are `outputs`; without controls, each mask's own numbers alone."""
    chosen = np.zeros(len(sample), dtype=np.bool_)
    if controls is not None:
        chosen[np.linspace(0, len(sample) - 1, min(controls.instances, len(sample))).astype(np.intp)] = True
    parts = []
    for start in range(0, len(sample), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(sample)))
        some = masks if len(rows) == len(sample) else masks[rows]
        part = sample.take(rows)
        eraser = Eraser(
            part, outputs[rows], predict, task, some.scores, part.eligible, some.deletion_ranking, removes_mask(masks)
        )
        each, without = _of_masks(some, eraser)
        curves: Each = {}
        if controls is not None:
            # One stream for each chunk: the random cells of an instance do not depend on how many follow it.
            rng = np.random.default_rng([controls.seed, start])
            more, curves = _beside_random(some, eraser, controls.curve_areas, chosen[rows], rng)
            each |= more
        parts.append((each, curves, without))
    each = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
    points = {name: np.concatenate([part[1][name] for part in parts], axis=1) for name in parts[0][1]}
    curves = {name: values.mean(axis=1) for name, values in points.items()}
    intervals = {name: metrics.mean_interval(values) for name, values in points.items() if "/" not in name}
    return Scores(each, curves, np.concatenate([part[2] for part in parts]), intervals)


def removes_mask(masks: Masks) -> bool:
    """Whether cells were removed from the model's own mask, too: operator "missing"."""
    return "missing" in (masks.config.get("operators") or ())


def _of_masks(masks: Masks, eraser: Eraser) -> tuple[Each, Floats]:
    """Size and information of each mask, the shift of the prediction without its cells, and that prediction."""
    where = eraser.where
    entropy = metrics.entropy(masks.masks, where)
    shifts, without = eraser.removed(masks.area)
    each = {
        "area": masks.area.astype(np.float64),
        "entropy": entropy,
        "entropy_normalized": entropy / (where.sum(axis=(1, 2)) * np.log(2)),
        "information": metrics.information(masks.masks, where),
        "information_normalized": metrics.information_ratio(masks.masks, where),
        "certainty": _certainty(masks, where),
        **shifts,
    }
    return each | _above_unperturbed(each, eraser) | _moved_back(masks, eraser, without), without


def _moved_back(masks: Masks, eraser: Eraser, after: Floats) -> Each:
    """How far the explained answer moves back towards its reference."""
    shift = answer_shift(eraser.outputs, after, masks.direction, masks.target, eraser.task)
    return {} if shift is None else {"answer_shift": shift}


def _certainty(masks: Masks, where: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Mean coefficient of the cells in the mask of whole cells: how likely they are salient; NaN without any."""
    chosen = masks.binary & where
    count = chosen.sum(axis=(1, 2))
    total = np.where(chosen, masks.masks, 0.0).sum(axis=(1, 2), dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _above_unperturbed(shifts: Each, eraser: Eraser) -> Each:
    """CE above that of the unperturbed predictions, which is not 0; a squared error is above 0 as it is."""
    names = [name for name in shifts if name.split("/")[0] == "ce"]
    if not names:
        return {}
    plain = eraser.shift(eraser.outputs)["ce"]
    return {name.replace("ce", "ce_shift", 1): shifts[name] - plain for name in names}


def _beside_random(
    masks: Masks,
    eraser: Eraser,
    curve_areas: Sequence[float],
    control: NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[Each, Each]:
    """Comprehensiveness, sufficiency and curves, and their twins for random cells."""
    each, curves = eraser.along(curve_areas)
    names = tuple(each)
    chance = rng.random(masks.scores.shape)
    rankings = {"random": chance}
    if len(chance) > 1:  # another instance's mask: what is common to all of them explains none
        rankings["other"] = np.roll(masks.scores, 1, axis=0)
    for kind, ranking in rankings.items():
        shifts, after = replace(eraser, ranking=ranking, removal=None).removed(masks.area)
        shifts |= _moved_back(masks, eraser, after)
        each |= {f"{name}/{kind}": values for name, values in shifts.items()}
    each |= _above_unperturbed(each, eraser)
    each |= {f"{name}/random": np.full(len(chance), np.nan) for name in names}
    curves |= {f"{name}/random": np.empty((len(values), 0)) for name, values in curves.items()}
    some = np.flatnonzero(control)
    if len(some):
        few = Eraser(
            eraser.sample.take(some),
            eraser.outputs[some],
            eraser.predict,
            eraser.task,
            chance[some],
            eraser.where[some],
            missing=eraser.missing,
        )
        losses, random_curves = few.along(curve_areas)
        for name, values in losses.items():
            each[f"{name}/random"][some] = values
        curves |= {f"{name}/random": values for name, values in random_curves.items()}
    return each, curves


def value_of(outputs: NDArray[Any], target: Target, task: str, like: NDArray[Any] | None = None) -> NDArray[Any] | None:
    """(N,) a probability or a value; None where the target is not one number of the outputs.

    Args:
        outputs: probabilities (N, C) or (N, T, C), or values (N,), (N, H) or (N, T, C).
        like: outputs whose predicted class is meant where the target names none; by default `outputs`.
    """
    if target.function is not None:
        return None
    values = np.asarray(outputs, dtype=np.float64)
    if task == "classification":
        chosen = target.output if target.output is not None else 1 if values.shape[-1] == 2 else None
        if chosen is not None:
            values = values[..., chosen]
        else:
            predicted = predicted_class(np.asarray(values if like is None else like, dtype=np.float64))
            values = np.take_along_axis(values, predicted[..., None], axis=-1)[..., 0]
    elif target.output is not None and values.ndim > 1:
        values = values[..., target.output]
    if target.step is not None and values.ndim > 1:
        values = values[:, target.step]
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    return values if values.ndim == 1 else None


def answer_shift(
    before: NDArray[Any], after: NDArray[Any], direction: NDArray[Any], target: str, task: str
) -> NDArray[np.float64] | None:
    """(N,) how far the answer moves back towards its reference: in log-odds, or in the value's units.

    Positive: what was removed had moved the answer. NaN where there is nothing to explain; None where the target is
    not one number of the outputs.

    Example:
        >>> before, after = np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([[0.5, 0.5], [0.8, 0.2]])
        >>> answer_shift(before, after, np.array([1, -1]), "auto", "classification").round(2).tolist()
        [1.39, 0.81]
    """
    if target.startswith("callable:"):
        return None
    spec = parse_target(target)
    first, second = value_of(before, spec, task), value_of(after, spec, task, like=before)
    if first is None or second is None:
        return None
    if task == "classification":
        first, second = _log_odds(first), _log_odds(second)
    way = np.sign(np.asarray(direction, dtype=np.float64))
    return np.where(way != 0, way * (first - second), np.nan)


def _log_odds(p: NDArray[Any]) -> NDArray[np.float64]:
    clipped = np.clip(p, PROBABILITY_EPSILON, 1 - PROBABILITY_EPSILON)
    return np.asarray(np.log(clipped / (1 - clipped)))


class Predict(Protocol):
    """Predictions for x (K N, T, d), K perturbations of the N instances of a sample; or with cells never measured."""

    def __call__(
        self, x: NDArray[np.float32], sample: Sequences, removed: NDArray[np.bool_] | None = None
    ) -> Floats: ...


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
