"""Parts of the report's page: what raised and lowered the answers, groups of instances, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import Evaluation
from dynamask_mlflow.evaluation.labels import Labels
from dynamask_mlflow.evaluation.paired import mean_interval
from dynamask_mlflow.evaluation.scoring import value_of
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.masks.target_spec import Target, parse_target
from dynamask_mlflow.metrics.shift import predicted_class
from dynamask_mlflow.report import Contributions, Course, TargetView

RISK_BANDS = (0.0, 0.1, 0.3, 0.5, 0.8, 1.0)
_FEWEST_IN_BAND = 8
_MOST_BANDS = 10


def contributions_of(masks: Masks, evaluation: Evaluation, labels: Labels, target: Any) -> Contributions | None:
    """Signed contributions with their answers; None where the method has none."""
    if masks.attributions is None or "reference_answer" not in masks.diagnostics:
        return None
    spec = parse_target(target, labels.class_names)
    classes = evaluation.task == "classification"
    own_score = spec.function is not None
    one_step = spec.step is not None or not evaluation.per_step
    return Contributions(
        cells=masks.attributions,
        answer=masks.diagnostics["answer"],
        reference=masks.diagnostics["reference_answer"],
        logit=classes and evaluation.outputs.shape[-1] == 2 and one_step and not own_score,
        unit="log-odds" if classes and not own_score else "",
        channel_spread=masks.channel_spread,
        target=target_words(spec, evaluation, labels),
    )


def target_words(spec: Target, evaluation: Evaluation, labels: Labels) -> str:
    """What was explained, as a reader says it: "the risk of death", "the value at horizon 6"."""
    if spec.function is not None:
        return spec.spec.removeprefix("callable:")
    at = ""
    if spec.step is not None:
        times = evaluation.sample.times
        known = evaluation.per_step and spec.step < len(times)
        at = f" at {labels.time_unit} {times[spec.step]}" if known else f" at horizon {spec.step}"
    if evaluation.task != "classification":
        return f"the value{at}" if spec.output is None else f"output {spec.output}{at}"
    names = labels.class_names
    if evaluation.outputs.shape[-1] == 2:
        chosen = 1 if spec.output is None else spec.output
        return f"the risk of {names[chosen] if names and chosen < len(names) else f'class {chosen}'}{at}"
    if spec.output is None:
        return f"the predicted class{at}"
    return f"the class {names[spec.output] if names and spec.output < len(names) else spec.output}{at}"


def target_views(evaluation: Evaluation, labels: Labels, shown: NDArray[np.intp]) -> list[TargetView]:
    """The other targets of the same instances."""
    found = []
    for spec, masks in evaluation.views.items():
        some = masks[shown]
        target = parse_target(spec, labels.class_names)
        words = target_words(target, evaluation, labels)
        found.append(
            TargetView(
                label=words,
                masks=some.masks,
                scores=some.scores,
                contributions=contributions_of(some, evaluation, labels, spec),
                predictions=value_of(evaluation.outputs[shown], target, evaluation.task),
            )
        )
    return found


def course_of(evaluation: Evaluation, target: Any, labels: Labels, rows: NDArray[np.intp]) -> Course | None:
    """The answers over the sequences; None where they were not asked for or are not one number.

    Instances that are too short for the change that was asked for have none: NaN.
    """
    if evaluation.changes is None:
        return None
    found, names = evaluation.changes.course, evaluation.changes.sample.ids
    place = {name: row for row, name in enumerate(names)}
    known = np.array([place.get(evaluation.sample.ids[row], -1) for row in rows], dtype=np.intp)
    spec = parse_target(target, labels.class_names)
    outputs = np.where((known >= 0)[:, None, None], found.outputs[known], np.nan)
    if evaluation.task == "classification":
        chosen = spec.output if spec.output is not None else 1 if outputs.shape[-1] == 2 else None
    else:
        chosen = spec.output if spec.output is not None else spec.step or 0
    if chosen is None or chosen >= outputs.shape[-1]:
        return None
    return Course(
        steps=found.steps,
        answers=outputs[..., chosen],
        moves=np.nan_to_num(found.moves[known]),
        elapsed=np.nan_to_num(found.elapsed[known]),
        unit="log-odds" if evaluation.task == "classification" else "",
        since=evaluation.changes.change.since[known],
        until=evaluation.changes.change.until[known],
    )


def binary_risk(evaluation: Evaluation) -> NDArray[np.float64] | None:
    """(N,) the risk of a classifier with two classes and one answer; None for all others."""
    y = evaluation.outputs
    binary = evaluation.task == "classification" and y.ndim == 2 and y.shape[1] == 2
    return y[:, 1].astype(np.float64) if binary else None


def population_of(evaluation: Evaluation) -> float | None:
    """The mean prediction, where a prediction is one number."""
    risk = binary_risk(evaluation)
    if risk is not None:
        return float(risk.mean())
    y = evaluation.outputs
    single = evaluation.task == "regression" and y.size == len(y)
    return float(y.mean()) if single and len(y) else None


def groups_of(evaluation: Evaluation, config: EvaluationConfig, labels: Labels) -> list[dict[str, Any]]:
    """The numbers of each predicted class and of each band of the risk; groups below `min_group` are left out."""
    if evaluation.task != "classification" or evaluation.per_step or not len(evaluation.sample):
        return []
    predicted = predicted_class(evaluation.outputs.astype(np.float64))
    names = labels.class_names or ()
    groups = [
        (f"predicted {names[k] if k < len(names) else f'class {k}'}", predicted == k) for k in np.unique(predicted)
    ]
    risk = binary_risk(evaluation)
    if risk is not None:
        for low, high in pairwise(RISK_BANDS):
            inside = (risk >= low) & ((risk < high) | (high == RISK_BANDS[-1]))
            groups.append((f"risk {100 * low:.0f} to {100 * high:.0f} %", inside))
    channels = labels.channel_labels or evaluation.sample.channel_names
    return [_group(evaluation, name, rows, channels) for name, rows in groups if rows.sum() >= max(1, config.min_group)]


def _group(evaluation: Evaluation, name: str, rows: NDArray[np.bool_], channels: Sequence[str]) -> dict[str, Any]:
    run = evaluation.main
    each = run.scores.each

    def mean(key: str) -> float:
        values = each[key][rows] if key in each else np.array([])
        values = values[np.isfinite(values)]
        return float(values.mean()) if len(values) else float("nan")

    low, high = mean_interval(each["answer_shift"][rows]) if "answer_shift" in each else (np.nan, np.nan)
    interval = f"{mean('answer_shift'):.3f}" + (f" [{low:.3f}, {high:.3f}]" if np.isfinite(low) else "")
    mass = run.masks.masks[rows].sum(axis=(0, 1))
    leaders = [channels[c] for c in np.argsort(-mass, kind="stable")[:3]]
    return {
        "group": name,
        "instances": int(rows.sum()),
        "area": mean("area"),
        "moved back": interval,
        "random cells": mean("answer_shift/random"),
        "kept": mean("acc"),
        "certainty": mean("certainty"),
        "leading channels": ", ".join(leaders),
    }


def calibration_of(evaluation: Evaluation) -> list[dict[str, float]]:
    """Predicted and observed rates in bands of equal size, with Wilson's interval; none without known outcomes."""
    risk, targets = binary_risk(evaluation), evaluation.sample.targets
    if risk is None or targets is None or targets.ndim != 1 or not np.isin(targets, (0, 1)).all():
        return []
    from scipy.stats import binomtest

    bands = min(_MOST_BANDS, len(risk) // _FEWEST_IN_BAND)
    if bands < 2:
        return []
    rows = []
    for part in np.array_split(np.argsort(risk, kind="stable"), bands):
        events = int(np.asarray(targets)[part].astype(bool).sum())
        interval = binomtest(events, len(part)).proportion_ci(method="wilson")
        rows.append(
            {
                "predicted": float(risk[part].mean()),
                "observed": events / len(part),
                "low": float(interval.low),
                "high": float(interval.high),
                "instances": float(len(part)),
            }
        )
    return rows
