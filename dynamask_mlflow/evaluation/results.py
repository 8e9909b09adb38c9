"""What an evaluation leaves behind: metrics by name, and files: masks, table, profile, report, pictures, settings."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynamask_mlflow._files import atomic_write, checksum
from dynamask_mlflow._json import plain
from dynamask_mlflow._provenance import versions
from dynamask_mlflow.evaluation.changes import change_record, change_table
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import Evaluation
from dynamask_mlflow.evaluation.explain_and_score import MethodRun
from dynamask_mlflow.evaluation.model_settings import Labels
from dynamask_mlflow.evaluation.privacy import hashed
from dynamask_mlflow.evaluation.report_data import instance_metrics, report_data
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.result import DIRECTIONS, Masks
from dynamask_mlflow.metrics import Profile, mask_profile
from dynamask_mlflow.metrics.shift import predicted_class
from dynamask_mlflow.report import heat_map_png, model_card, render_report

_logger = logging.getLogger(__name__)

PREFIX = "dynamask"
TABLE = "dynamask_instances.json"
REPORT, MASKS = "dynamask/report.html", "dynamask/masks.npz"
CARD = "dynamask/model_card.md"
CHANGE_TABLE = "dynamask_changes.json"
CHANGE, CHANGE_RECORD = "dynamask/change.npz", "dynamask/change.json"
PROFILE, CONFIG = "dynamask/profile.json", "dynamask/config.json"


def write_artifacts(
    folder: Path,
    evaluation: Evaluation,
    config: EvaluationConfig,
    *,
    about: Mapping[str, Any],
    model: str,
    labels: Labels | None = None,
) -> list[str]:
    """Write everything; returns the artifact paths in order of upload, the one that vouches for them last."""
    if config.hash_ids:
        evaluation = _with_hashed_ids(evaluation)
    sample, run = evaluation.sample, evaluation.main
    profile = mask_profile(run.masks.masks, sample.eligible, sample.exists, config.min_group)
    run.masks.save(folder / MASKS)
    files = [MASKS]
    for method, other in list(evaluation.runs.items())[1:]:
        files.append(f"dynamask/masks_{_file_name(method)}.npz")
        other.masks.save(folder / files[-1])
    texts: dict[str, str | bytes] = {
        TABLE: json.dumps(instance_table(evaluation, labels.class_names if labels else config.class_names)),
        PROFILE: json.dumps(_profile_record(profile, sample)),
    }
    if evaluation.changes is not None:
        evaluation.changes.change.save(folder / CHANGE)
        files.append(CHANGE)
        texts[CHANGE_TABLE] = json.dumps(change_table(evaluation.changes))
        texts[CHANGE_RECORD] = json.dumps(change_record(evaluation.changes))
    try:
        page = report_data(evaluation, profile, config, model=model, created_at=str(about["created_at"]), labels=labels)
        texts[REPORT] = render_report(page)
        texts[CARD] = model_card(page, dataset=about.get("dataset"))
        texts |= _pictures(evaluation, config.images)
    except Exception:  # a page that cannot be drawn must not cost the masks
        _logger.exception("dynamask: the report could not be drawn; everything else is logged.")
    for path, text in texts.items():
        atomic_write(folder / path, text)
    files += texts
    record = {
        **_record(evaluation, config),
        "labels": _labels_record(labels),
        **about,
        "files": {name: checksum(folder / name) for name in files},
    }
    atomic_write(folder / CONFIG, json.dumps(record, indent=1, default=str))
    return [*files, CONFIG]


def _pictures(evaluation: Evaluation, count: int) -> dict[str, bytes]:
    sample, masks = evaluation.sample, evaluation.main.masks
    pictures = {}
    for i, name in enumerate(sample.ids[:count]):
        title = f"{name}: {100 * masks.area[i]:.3g} % of the cells"
        length = None if sample.lengths is None else int(sample.lengths[i])
        drawn = heat_map_png(masks.masks[i], sample.channel_names, sample.times, title, length)
        pictures[f"dynamask/instances/{i:03d}_{_file_name(name)}.png"] = drawn
    return pictures


def instance_table(evaluation: Evaluation, class_names: Sequence[str] | None = None) -> dict[str, Any]:
    """One row an instance, in the layout of `mlflow.log_table`; classes by their names, where these are known."""
    sample, run = evaluation.sample, evaluation.main
    columns: dict[str, Any] = {"id": list(sample.ids), **_predictions(evaluation)}
    if sample.targets is not None:
        columns["target"] = plain(sample.targets)
    if class_names and evaluation.task == "classification":
        columns["prediction"] = _named(columns["prediction"], class_names)
        # Other targets of classification are one value a class, not the position of one.
        if sample.targets is not None and sample.targets.ndim == 1 + evaluation.per_step:
            columns["target"] = _named(columns["target"], class_names)
    columns |= _departures(run.masks)
    columns |= {name: plain(values) for name, values in instance_metrics(run).items()}
    notes = [
        np.where(flags, name, "")
        for name, flags in run.masks.diagnostics.items()
        if np.asarray(flags).dtype == np.bool_ and name != "converged"
    ]
    if notes:
        columns["note"] = [", ".join(filter(None, row)) for row in zip(*notes, strict=True)]
    return {"columns": list(columns), "data": [list(row) for row in zip(*columns.values(), strict=True)]}


def _named(classes: Any, names: Sequence[str]) -> Any:
    """Positions of classes as their names, in lists of any depth; what is no such position stays as it is."""
    if isinstance(classes, list):
        return [_named(one, names) for one in classes]
    position = isinstance(classes, int | float) and 0 <= classes < len(names) and classes == int(classes)
    return names[int(classes)] if position else classes


def _departures(masks: Masks) -> dict[str, Any]:
    """What was explained of each instance: the target score, its reference answer, the direction, and by what."""
    if "reference_answer" not in masks.diagnostics:
        return {}
    return {
        "direction": [DIRECTIONS[int(way)] for way in masks.direction],
        "answer": plain(masks.diagnostics["answer"]),
        "reference_answer": plain(masks.diagnostics["reference_answer"]),
        "algorithm": masks.algorithm.tolist(),
    }


def _predictions(evaluation: Evaluation) -> dict[str, Any]:
    y = evaluation.outputs
    if evaluation.task == "regression":
        return {"prediction": plain(y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y)}
    probability = y[..., 1] if y.shape[-1] == 2 else y.max(axis=-1)
    return {"prediction": plain(predicted_class(y.astype(np.float64))), "probability": plain(probability)}


def _record(evaluation: Evaluation, config: EvaluationConfig) -> dict[str, Any]:
    sample = evaluation.sample
    settings = {name: value for name, value in config.to_dict().items() if name != "spool"}
    if config.hash_ids and config.ids is not None:
        settings["ids"] = [hashed(name) for name in config.ids]
    return {
        "schema_version": 1,
        "settings": settings,
        "fits": {method: dict(run.masks.config) for method, run in evaluation.runs.items()},
        "task": evaluation.task,
        "ids": list(sample.ids),
        "failures": dict(evaluation.failures),
        "random_outputs": evaluation.random_outputs,
        "channel_names": list(sample.channel_names),
        "times": list(sample.times),
        "seconds": {name: plain(value) for name, value in evaluation.seconds.items()},
        "versions": versions("mlflow", "torch", "numpy"),
    }


def _profile_record(profile: Profile, sample: Sequences) -> dict[str, Any]:
    """The profile as JSON holds it: names beside numbers, null for what is undefined."""
    channels, times = list(sample.channel_names), list(sample.times)
    return {
        "instances": len(sample),
        "channels": channels,
        "times": times,
        "by_channel": plain(profile.by_channel),
        "by_time": plain(profile.by_time),
        "by_cell": plain(profile.by_cell),
        "share_by_channel": plain(profile.share_by_channel),
        "share_by_time": plain(profile.share_by_time),
    }


def _labels_record(labels: Labels | None) -> dict[str, Any]:
    """What a reader calls things, for pages that are made of this evaluation later."""
    names = ("class_names", "time_unit", "channel_labels", "units")
    return {} if labels is None else {name: getattr(labels, name) for name in names}


def _with_hashed_ids(evaluation: Evaluation) -> Evaluation:
    sample: Sequences = replace(evaluation.sample, ids=tuple(hashed(name) for name in evaluation.sample.ids))
    failures = {hashed(name): message for name, message in evaluation.failures.items()}
    changes = evaluation.changes
    if changes is not None:
        some = replace(changes.sample, ids=tuple(hashed(name) for name in changes.sample.ids))
        changes = replace(changes, sample=some)
    return replace(evaluation, sample=sample, failures=failures, changes=changes)


def _file_name(name: str) -> str:
    """An id or method as part of a file name: no slashes, no markup, not too long."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:40] or "instance"


def scalar_metrics(evaluation: Evaluation, several: bool = False) -> dict[str, float]:
    """What `EvaluationResult.metrics` holds: `dynamask/...`, and `dynamask/<method>/...` of several."""
    found = _of_run(PREFIX, evaluation.main)
    if several:
        for method, run in evaluation.runs.items():
            found |= _of_run(f"{PREFIX}/{method}", run)
    found |= {
        f"{PREFIX}/instances": float(len(evaluation.sample)),
        f"{PREFIX}/failures": float(len(evaluation.failures)),
        f"{PREFIX}/seconds": evaluation.seconds["total"],
    }
    found |= _of_horizons(evaluation)
    if evaluation.random_outputs:
        found[f"{PREFIX}/diagnostics/random_outputs"] = 1.0
    if evaluation.sanity is not None and np.isfinite(evaluation.sanity):
        found[f"{PREFIX}/sanity_similarity"] = evaluation.sanity
    return found


def _of_horizons(evaluation: Evaluation) -> dict[str, float]:
    """For forecasts, how far each horizon moves without the mask's cells: `dynamask/squared_error/horizon_0`, ..."""
    before, after = evaluation.outputs, evaluation.main.scores.without
    if evaluation.task != "regression" or evaluation.per_step or before.ndim < 2 or not 1 < before.shape[1] <= 100:
        return {}
    moved = np.square(before - after).reshape(*before.shape[:2], -1).mean(axis=(0, 2))
    return {f"{PREFIX}/squared_error/horizon_{k}": float(value) for k, value in enumerate(moved)}


def curve_metrics(
    evaluation: Evaluation, areas: tuple[float, ...], several: bool = False
) -> dict[tuple[str, int], float]:
    """The paper's figures, drawn by MLflow: (name, step) -> value, with step = 1000 x area."""
    points = _curves_of_run(PREFIX, evaluation.main, areas)
    if several:
        for method, run in evaluation.runs.items():
            points |= _curves_of_run(f"{PREFIX}/{method}", run, areas)
    return points


def _of_run(prefix: str, run: MethodRun) -> dict[str, float]:
    found = {f"{prefix}/{name}": value for name, value in run.scores.summary().items()}
    found[f"{prefix}/seconds_fit"] = run.seconds
    for name, flags in run.masks.diagnostics.items():
        if np.asarray(flags).dtype == np.bool_:
            found[f"{prefix}/diagnostics/{name}"] = float(np.count_nonzero(flags))
    return found


def _curves_of_run(prefix: str, run: MethodRun, areas: tuple[float, ...]) -> dict[tuple[str, int], float]:
    drawn = {name: (areas, values) for name, values in run.scores.curves.items()}
    drawn["error"] = (tuple(run.masks.areas), run.error_curve())
    # Areas below a thousandth fall on one step; the largest of them stays.
    return {
        (f"{prefix}/curve/{name}", round(1000 * area)): float(value)
        for name, (grid, values) in drawn.items()
        for area, value in zip(grid, values, strict=True)
        if np.isfinite(value)
    }
