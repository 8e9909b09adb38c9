"""An evaluation as the report's page takes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow import metrics
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import Evaluation
from dynamask_mlflow.evaluation.explain_and_score import MethodRun
from dynamask_mlflow.evaluation.model_settings import Labels
from dynamask_mlflow.evaluation.scoring import value_of
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.masks.target_spec import Target, parse_target
from dynamask_mlflow.metrics.shift import predicted_class
from dynamask_mlflow.report import Contributions, Course, Curves, MethodResult, Paired, ReportData, TargetView

RISK_BANDS = (0.0, 0.1, 0.3, 0.5, 0.8, 1.0)

_LEVEL = ("time_mean", "neutral")  # the default's baselines, which hold each channel at one value

_IN_TABLE = (
    "area",
    "certainty",
    "answer_shift",
    "entropy",
    "information",
    "ce",
    "ce_shift",
    "squared_error",
    "comprehensiveness",
    "sufficiency",
)


def report_data(
    evaluation: Evaluation,
    profile: metrics.Profile,
    config: EvaluationConfig,
    *,
    model: str,
    created_at: str,
    labels: Labels | None = None,
) -> ReportData:
    """Everything the page shows; raw values only if the configuration has `log_inputs`."""
    labels = labels or Labels(config.class_names, config.time_unit or "step")
    run = evaluation.main
    task: Any = evaluation.task
    grid = _grid(run, config)
    shown = np.arange(min(len(evaluation.sample), config.report_instances))
    sample = evaluation.sample.take(shown)
    masks = run.masks if len(shown) == len(run.masks) else run.masks[shown]
    targets = sample.targets
    return ReportData(
        title=config.title or f"What {model} relies on",
        model=model,
        created_at=created_at,
        task=task,
        ids=list(sample.ids),
        channel_names=list(sample.channel_names),
        times=list(sample.times),
        time_unit=labels.time_unit,
        channel_labels=labels.channel_labels,
        units=labels.units,
        masks=masks.masks,
        scores=masks.scores,
        highlighted=masks.binary,
        predictions=evaluation.outputs[shown],
        predictions_without=run.scores.without[shown],
        targets=targets if targets is None or _fits(targets, evaluation) else None,
        class_names=labels.class_names,
        per_step=evaluation.per_step,
        metrics={name: values[shown] for name, values in _metrics(run).items()},
        contributions=_contributions_of(masks, evaluation, labels, config.target),
        views=_target_views(evaluation, labels, shown),
        course=_course_of(evaluation, config.target, labels, shown),
        population=_population_of(evaluation, _asks_for_first(config, labels)),
        threshold=None if _binary_risk(evaluation) is None or _asks_for_first(config, labels) else config.threshold,
        paired={name: Paired(**found) for name, found in metrics.compare_with_controls(run.scores.each).items()},
        groups=_groups_of(evaluation, config, labels),
        calibration=_calibration(evaluation),
        summary=run.scores.summary(),
        errors=_on_grid(masks.areas, masks.errors, grid),
        lengths=sample.lengths,
        observed=_measured(sample, config),
        inputs=labels.raw(_inputs(sample)) if config.log_inputs else None,
        profile_by_channel=profile.by_channel,
        profile_by_time=profile.by_time,
        profile=profile.by_cell,
        curves=_curves(run, config, grid),
        method=next(iter(evaluation.runs)),
        comparison=_comparison(evaluation, config),
        settings=_settings(config),
        notes=_notes(evaluation, len(shown)),
        warnings=_warnings(evaluation),
    )


def instance_metrics(run: MethodRun) -> dict[str, NDArray[Any]]:
    """One number for each instance and name, as the table and the report show them."""
    each = run.scores.each
    shown: dict[str, NDArray[Any]] = {name: each[name] for name in _IN_TABLE if name in each}
    if "acc" in each:
        shown["flipped"] = each["acc"] < 1
    return shown


def _metrics(run: MethodRun) -> dict[str, NDArray[Any]]:
    """What the table shows, the fit's remarks, and what each mask is checked by."""
    checks = ("answer_shift/random", "squared_error/random")
    each = run.scores.each
    return {**instance_metrics(run), **_remarks(run), **{name: each[name] for name in checks if name in each}}


def _remarks(run: MethodRun) -> dict[str, NDArray[np.bool_]]:
    """The fit's own remarks on instances, where there are any: what a reader may want to filter by."""
    flags = {name: np.asarray(values) for name, values in run.masks.diagnostics.items()}
    flags = {name: values for name, values in flags.items() if values.dtype == np.bool_}
    return {name: values for name, values in flags.items() if (values != (name == "converged")).any()}


def _inputs(sample: Sequences) -> NDArray[np.float32]:
    """The series, NaN in the padding."""
    return sample.x if sample.exists is None else np.where(sample.exists, sample.x, np.float32(np.nan))


def _measured(sample: Sequences, config: EvaluationConfig) -> NDArray[np.bool_] | None:
    """Which values are drawn as measured. When something was measured is known of raw data: it goes where they go."""
    return sample.measured if config.log_inputs and sample.measured is not None else sample.observed


def _grid(run: MethodRun, config: EvaluationConfig) -> NDArray[np.float64]:
    return np.unique(np.round([*run.masks.areas, *config.curve_areas], 9))


def _on_grid(areas: Any, values: Any, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values known at `areas` on a finer grid, NaN between."""
    values = np.asarray(values, dtype=np.float64)
    wide = np.full((*values.shape[:-1], len(grid)), np.nan)
    wide[..., np.searchsorted(grid, np.round(areas, 9))] = values
    return wide


def _curves(run: MethodRun, config: EvaluationConfig, grid: NDArray[np.float64]) -> Curves:
    values: dict[str, Any] = {"error": _on_grid(run.masks.areas, run.error_curve(), grid)}
    random: dict[str, Any] = {}
    for name, curve in run.scores.curves.items():
        plain, _, twin = name.partition("/")
        (random if twin else values)[plain] = _on_grid(config.curve_areas, curve, grid)
    ends = {name: _on_grid(config.curve_areas, both, grid) for name, both in run.scores.intervals.items()}
    low, high = ({name: both[side] for name, both in ends.items()} for side in (0, 1))
    return Curves(areas=grid, values=values, random=random, low=low, high=high)


def _comparison(evaluation: Evaluation, config: EvaluationConfig) -> dict[str, MethodResult]:
    if len(evaluation.runs) < 2:
        return {}
    return {
        name: MethodResult(
            metrics={**run.scores.summary(), "seconds": run.seconds},
            curves=_curves(run, config, _grid(run, config)),
        )
        for name, run in evaluation.runs.items()
    }


def _fits(targets: NDArray[Any], evaluation: Evaluation) -> bool:
    """Whether targets are of the form that predictions have; the page cannot show others beside them."""
    wanted = 2 if evaluation.per_step else 1
    return targets.ndim >= wanted and (not evaluation.per_step or targets.shape[1] == evaluation.sample.x.shape[1])


def _settings(config: EvaluationConfig) -> dict[str, Any]:
    hidden = ("ids", "enabled", "spool", "title", "progress", "class_names", "time_unit")
    return {
        name: value
        for name, value in config.to_dict().items()
        if name not in hidden and value not in (None, (), [], "")
    }


def _notes(evaluation: Evaluation, shown: int) -> list[str]:
    total = len(evaluation.sample)
    if shown == total:
        return []
    return [f"The page lists {shown:,} of {total:,} instances; its means, curves and profiles are of all of them."]


def _warnings(evaluation: Evaluation) -> list[str]:
    said = []
    if evaluation.random_outputs:
        said.append("The network's outputs are random: the same input gives another answer each time.")
    total = len(evaluation.sample) + len(evaluation.failures)
    if evaluation.failures:
        said.append(f"{len(evaluation.failures)} of {total} sampled instances could not be explained.")
    flags = evaluation.main.masks.diagnostics
    for name, words in (
        ("dead_gradient", "have no gradient: the network does not react to their inputs"),
        ("constant_prediction", "keep their prediction whatever is removed: their masks mean nothing"),
    ):
        count = int(np.count_nonzero(flags.get(name, ())))
        if count:
            said.append(f"{count} of {len(evaluation.sample)} instances {words}.")
    return said


def _contributions_of(masks: Masks, evaluation: Evaluation, labels: Labels, target: Any) -> Contributions | None:
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
        target=_target_words(spec, evaluation, labels),
        **starting_point(masks),
    )


def starting_point(masks: Masks) -> dict[str, Any]:
    """What contributions start from, as the page says it."""
    if masks.config.get("reference"):
        return {"against": "to other sequences"}
    if set(masks.config.get("operators") or _LEVEL) <= set(_LEVEL):
        return {"against": "with every channel held level", "held_level": True}
    return {}


def _target_words(spec: Target, evaluation: Evaluation, labels: Labels) -> str:
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
        kind = "risk" if chosen else "probability"
        return f"the {kind} of {names[chosen] if names and chosen < len(names) else f'class {chosen}'}{at}"
    if spec.output is None:
        return f"the predicted class{at}"
    return f"the class {names[spec.output] if names and spec.output < len(names) else spec.output}{at}"


def _target_views(evaluation: Evaluation, labels: Labels, shown: NDArray[np.intp]) -> list[TargetView]:
    """The other targets of the same instances."""
    found = []
    for spec, masks in evaluation.views.items():
        some = masks[shown]
        target = parse_target(spec, labels.class_names)
        words = _target_words(target, evaluation, labels)
        found.append(
            TargetView(
                label=words,
                masks=some.masks,
                scores=some.scores,
                highlighted=some.binary,
                contributions=_contributions_of(some, evaluation, labels, spec),
                predictions=value_of(evaluation.outputs[shown], target, evaluation.task),
            )
        )
    return found


def _course_of(evaluation: Evaluation, target: Any, labels: Labels, rows: NDArray[np.intp]) -> Course | None:
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


def _binary_risk(evaluation: Evaluation) -> NDArray[np.float64] | None:
    """(N,) the risk of a classifier with two classes and one answer; None for all others."""
    y = evaluation.outputs
    binary = evaluation.task == "classification" and y.ndim == 2 and y.shape[1] == 2
    return y[:, 1].astype(np.float64) if binary else None


def _asks_for_first(config: EvaluationConfig, labels: Labels) -> bool:
    """Whether the first of two classes is explained: thresholds and risks are of the second."""
    return parse_target(config.target, labels.class_names).output == 0


def _population_of(evaluation: Evaluation, of_first: bool) -> float | None:
    """The mean prediction, where a prediction is one number; of two classes that of the one that is explained."""
    risk = _binary_risk(evaluation)
    if risk is not None:
        return float(1 - risk.mean() if of_first else risk.mean())
    y = evaluation.outputs
    single = evaluation.task == "regression" and y.size == len(y)
    return float(y.mean()) if single and len(y) else None


def _groups_of(evaluation: Evaluation, config: EvaluationConfig, labels: Labels) -> list[dict[str, Any]]:
    """The numbers of each predicted class and of each band of the risk; groups below `min_group` are left out."""
    if evaluation.task != "classification" or evaluation.per_step or not len(evaluation.sample):
        return []
    predicted = predicted_class(evaluation.outputs.astype(np.float64))
    names = labels.class_names or ()
    groups = [
        (f"predicted {names[k] if k < len(names) else f'class {k}'}", predicted == k) for k in np.unique(predicted)
    ]
    risk = _binary_risk(evaluation)
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
        return metrics.mean_of_known(each[key][rows]) if key in each else float("nan")

    low, high = metrics.mean_interval(each["answer_shift"][rows]) if "answer_shift" in each else (np.nan, np.nan)
    moved = mean("answer_shift")
    interval = f"{moved:.3f}" if np.isfinite(moved) else "\N{EN DASH}"
    interval += f" [{low:.3f}, {high:.3f}]" if np.isfinite(low) else ""
    mass = run.masks.masks[rows].sum(axis=(0, 1))
    leaders = [channels[c] for c in np.argsort(-mass, kind="stable")[:3] if mass[c] > 0]
    return {
        "group": name,
        "instances": int(rows.sum()),
        "area": mean("area"),
        "moved back": interval,
        "random cells": mean("answer_shift/random"),
        "kept": mean("acc"),
        "certainty": mean("certainty"),
        "leading channels": ", ".join(leaders) or "\N{EN DASH}",
    }


def _calibration(evaluation: Evaluation) -> list[dict[str, float]]:
    """Predicted and observed rates of a risk; none without known outcomes."""
    risk, targets = _binary_risk(evaluation), evaluation.sample.targets
    if risk is None or targets is None or targets.ndim != 1 or not np.isin(targets, (0, 1)).all():
        return []
    return metrics.calibration_bands(risk, targets)
