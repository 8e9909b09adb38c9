"""The numbers of an evaluation as MLflow logs them: flat names, Python floats, curves by step."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.evaluation.evaluate import Evaluation
from dynamask_mlflow.evaluation.explain_and_score import MethodRun
from dynamask_mlflow.tracking.spool import Point

PREFIX = "dynamask"


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


def curve_points(evaluation: Evaluation, areas: tuple[float, ...], several: bool = False) -> list[Point]:
    """The paper's figures, drawn by MLflow: metrics against area."""
    points = _curves_of_run(PREFIX, evaluation.main, areas)
    if several:
        for method, run in evaluation.runs.items():
            points += _curves_of_run(f"{PREFIX}/{method}", run, areas)
    return points


def _of_run(prefix: str, run: MethodRun) -> dict[str, float]:
    found = {f"{prefix}/{name}": value for name, value in run.scores.summary().items()}
    found[f"{prefix}/seconds_fit"] = run.seconds
    for name, flags in run.masks.diagnostics.items():
        if np.asarray(flags).dtype == np.bool_:
            found[f"{prefix}/diagnostics/{name}"] = float(np.count_nonzero(flags))
    return found


def _curves_of_run(prefix: str, run: MethodRun, areas: tuple[float, ...]) -> list[Point]:
    drawn = {name: (areas, values) for name, values in run.scores.curves.items()}
    drawn["error"] = (tuple(run.masks.areas), run.error_curve())
    points = {}  # areas below a thousandth fall on one step; the largest of them stays
    for name, (grid, values) in drawn.items():
        for area, value in zip(grid, values, strict=True):
            if np.isfinite(value):
                step = round(1000 * area)
                points[name, step] = Point(f"{prefix}/curve/{name}", float(value), step)
    return list(points.values())
