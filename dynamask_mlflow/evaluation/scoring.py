"""What masks are worth: shifts of the prediction without the salient cells, and the same for random cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def score(
    masks: Masks,
    sample: Sequences,
    outputs: Floats,
    predict: Predict,
    *,
    task: str,
    curve_areas: Sequence[float],
    seed: int,
    control_instances: int = 128,
) -> Scores:
    """Score masks of a sample whose predictions are `outputs`.

    Random cells are compared with each instance's own mask on all of them; their curves, comprehensiveness and
    sufficiency, nine tenths of the work for a mere yardstick, on `control_instances` spread evenly over the sample.
    """
    control = np.zeros(len(sample), dtype=np.bool_)
    control[np.linspace(0, len(sample) - 1, min(control_instances, len(sample))).astype(np.intp)] = True
    parts = []
    for start in range(0, len(sample), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(sample)))
        # One stream for each chunk: the random cells of an instance do not depend on how many follow it.
        rng = np.random.default_rng([seed, start])
        part = sample.take(rows)
        parts.append(_score_chunk(masks[rows], part, outputs[rows], predict, task, curve_areas, control[rows], rng))
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
    control: NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[Each, Each, Floats]:
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
    eraser = Eraser(sample, outputs, predict, task, masks.scores, where, masks.deletion_ranking)
    shifts, without = eraser.removed(masks.area)
    losses, curves = eraser.along(curve_areas)
    each |= shifts | losses

    chance = rng.random(masks.scores.shape)
    shifts, _ = Eraser(sample, outputs, predict, task, chance, where).removed(masks.area)
    each |= {f"{name}/random": values for name, values in shifts.items()}
    some = np.flatnonzero(control)
    each |= {f"{name}/random": np.full(len(sample), np.nan) for name in losses}
    curves |= {f"{name}/random": np.empty((len(values), 0)) for name, values in curves.items()}
    if len(some):
        eraser = Eraser(sample.take(some), outputs[some], predict, task, chance[some], where[some])
        losses, random_curves = eraser.along(curve_areas)
        for name, values in losses.items():
            each[f"{name}/random"][some] = values
        curves |= {f"{name}/random": values for name, values in random_curves.items()}
    return each, curves, without
