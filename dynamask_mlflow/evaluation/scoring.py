"""What masks are worth: shifts of the prediction without the salient cells, and the same for random cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics
from dynamask_mlflow.evaluation.erasure import Each, Eraser, Floats, Predict
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.result import Masks

CHUNK = 256  # instances at a time: memory does not grow with their number


@dataclass(frozen=True, eq=False)
class Scores:
    """Numbers of one method on N instances.

    Attributes:
        each: name -> (N,). Shifts have a twin `<name>/random` for as many cells drawn at random, NaN for
            instances outside the control.
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
    curves = {name: np.concatenate([part[1][name] for part in parts], axis=1).mean(axis=1) for name in parts[0][1]}
    return Scores(each, curves, np.concatenate([part[2] for part in parts]))


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
        **shifts,
    }
    return each, without


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
    shifts, _ = replace(eraser, ranking=chance, removal=None).removed(masks.area)
    each |= {f"{name}/random": values for name, values in shifts.items()}
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
