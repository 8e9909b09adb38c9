"""The case of a row and a seed: a model, held-out sequences, and their salient cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.experiments.arena.data import TEST, Part
from dynamask_mlflow.experiments.arena.models import arena_model, predictions, quality
from dynamask_mlflow.experiments.arena.rows import find_row
from dynamask_mlflow.experiments.arena.tasks import TASKS, Task
from dynamask_mlflow.experiments.cases import motif_case
from dynamask_mlflow.experiments.hospital import hospital_case
from dynamask_mlflow.experiments.motif import MotifSetting
from dynamask_mlflow.experiments.protocol import Case

BACKGROUND = 400


def arena_case(row_name: str, seed: int, instances: int = 24) -> Case:
    """Held-out test sequences of a row whose salient cells are known and which the model classifies correctly.

    The model is trained, or read from the cache. `facts` has its accuracy on all test sequences.
    """
    row = find_row(row_name)
    if row.task.startswith("motif-"):
        return motif_case(MotifSetting(length=int(row.task[6:])), row.architecture, seed, instances, quick=False)  # type: ignore[arg-type]
    if row.task.startswith("hospital-"):
        return hospital_case(seed, instances, quick=False, band=row.task[9:])
    task = TASKS[row.task]
    model = arena_model(task, row.architecture, seed)
    test = task.part(seed=seed, n=max(task.test, 2 * instances), part=TEST)
    chosen = _chosen(task, test, predictions(model, test.x), instances)
    part = test.rows(chosen)
    seen = task.part(seed=seed, n=min(BACKGROUND, task.test))
    return Case(
        model=model,
        x=part.x,
        truth=part.truth,
        task="regression" if task.answer == "value" else "classification",
        facts={"accuracy": quality(model, task, test)},
        background=seen.x,
        lengths=part.lengths,
    )


def _chosen(task: Task, test: Part, out: NDArray[Any], instances: int) -> NDArray[np.int64]:
    known = test.with_known_truth()
    if task.answer == "class":
        known = known & (out.argmax(-1) == test.y)
    elif task.answer == "classes at every step":
        known = known & ((out.argmax(-1) == test.y).mean(-1) >= 0.9)
    rows = np.flatnonzero(known)
    if task.answer == "risk":
        rows = _risks_first(rows, 1 / (1 + np.exp(-out[rows])))
    if len(rows) < instances:
        raise ValueError(f"Expected {instances} sequences of {task.name} to explain, but there are {len(rows)}.")
    return rows[:instances]


def _risks_first(rows: NDArray[np.int64], risks: NDArray[Any]) -> NDArray[np.int64]:
    """Two of three from the risks of .1 to .5, the third from all others."""
    middle = (risks >= 0.1) & (risks < 0.5)
    inside, outside = rows[middle], rows[~middle]
    place = np.r_[np.arange(len(inside)) * 1.5, np.arange(len(outside)) * 3.0 + 2]
    return np.asarray(np.r_[inside, outside][np.argsort(place, kind="stable")])
