"""An evaluation as the report's page takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import Evaluation
from dynamask_mlflow.evaluation.explain_and_score import MethodRun
from dynamask_mlflow.evaluation.labels import Labels
from dynamask_mlflow.evaluation.paired import compare_with_rivals
from dynamask_mlflow.evaluation.profile import Profile
from dynamask_mlflow.evaluation.report_parts import (
    binary_risk,
    calibration_of,
    contributions_of,
    course_of,
    groups_of,
    population_of,
    target_views,
)
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.report import Curves, MethodResult, Paired, ReportData

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
    profile: Profile,
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
        predictions=evaluation.outputs[shown],
        predictions_without=run.scores.without[shown],
        targets=targets if targets is None or _fits(targets, evaluation) else None,
        class_names=labels.class_names,
        per_step=evaluation.per_step,
        metrics={name: values[shown] for name, values in _metrics(run).items()},
        contributions=contributions_of(masks, evaluation, labels, config.target),
        views=target_views(evaluation, labels, shown),
        course=course_of(evaluation, config.target, labels, shown),
        population=population_of(evaluation),
        threshold=config.threshold if binary_risk(evaluation) is not None else None,
        paired={name: Paired(**found) for name, found in compare_with_rivals(run.scores.each).items()},
        groups=groups_of(evaluation, config, labels),
        calibration=calibration_of(evaluation),
        summary=run.scores.summary(),
        errors=_on_grid(masks.areas, masks.errors, grid),
        lengths=sample.lengths,
        observed=sample.observed,
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
    return {name: value for name, value in config.to_dict().items() if name not in hidden and value is not None}


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
