"""Train and register each kind of model, evaluate it through MLflow, and compare its masks with the planted cells."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.experiments.zoo.entry import Entry
from dynamask_mlflow.experiments.zoo.planted import Planted
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.metrics import auprc

TRAINING, INSTANCES = 1500, 32


@dataclass(frozen=True)
class Row:
    """What the table says of one kind.

    Attributes:
        quality: accuracy, or R^2 for values, on the explained instances.
        auprc: method -> mean AUPRC of the planted cells, over the instances that the model gets right; "ours" first.
        algorithm: what made the orderings.
        seconds: of the evaluation, for each instance.
        problem: why there is no result.
    """

    name: str
    about: str
    quality: float = math.nan
    auprc: dict[str, float] | None = None
    algorithm: str = ""
    seconds: float = math.nan
    problem: str = ""


def run_zoo(
    chosen: Sequence[Entry],
    *,
    seeds: Sequence[int] = (0,),
    instances: int = INSTANCES,
    report: Callable[[str], None] = print,
) -> list[Row]:
    """One row for each kind, the mean over the seeds. MLflow's tracking URI says where the models are registered."""
    rows = []
    for entry in chosen:
        if entry.missing:
            row = Row(entry.name, entry.about, problem=f"not installed: {', '.join(entry.missing)}")
        else:
            try:
                row = _mean([run_entry(entry, seed=seed, instances=instances) for seed in seeds])
            except Exception as error:  # one kind must not cost the others
                row = Row(
                    entry.name, entry.about, problem=f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
                )
        rows.append(row)
        found = ", ".join(f"{name} {value:.2f}" for name, value in (row.auprc or {}).items())
        report(f"{row.name}: {row.problem or found}")
    return rows


def _mean(rows: Sequence[Row]) -> Row:
    """One row out of those of several seeds; the first problem stands for all."""
    first = next((row for row in rows if row.problem), rows[0])
    if first.problem or first.auprc is None:
        return first
    scores = {name: float(np.mean([(row.auprc or {})[name] for row in rows])) for name in first.auprc}
    quality, seconds = (float(np.mean([getattr(row, name) for row in rows])) for name in ("quality", "seconds"))
    return replace(first, quality=quality, auprc=scores, seconds=seconds)


def run_entry(entry: Entry, *, seed: int = 0, instances: int = INSTANCES, training: int = TRAINING) -> Row:
    """Register, evaluate and score one kind."""
    import mlflow

    model = entry.register(entry.planted(entry.training or training, seed), f"zoo-{entry.name}")
    test = entry.planted(instances, seed + 1000)
    begin = time.perf_counter()
    with _asked(model) as asked, mlflow.start_run(run_name=f"zoo-{entry.name}"):
        result = mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            asked,
            as_dataset(test, **entry.dataset),
            model_type=entry.model_type,
            evaluators="dynamask",
            evaluator_config={
                "instances": None,
                "methods": ["nested", *entry.other_methods],
                "images": 0,
                "progress": False,
                **entry.options,
            },
        )
    seconds = (time.perf_counter() - begin) / instances
    if "dynamask_masks" not in result.artifacts:
        return Row(entry.name, entry.about, problem="nothing was explained")
    table = result.artifacts["dynamask_instances"].content
    predicted = np.asarray([row[table["columns"].index("prediction")] for row in table["data"]])
    right, quality = _quality(predicted, test.y)
    masks: dict[str, Masks] = {"ours": result.artifacts["dynamask_masks"].content}
    masks |= {name: result.artifacts[f"dynamask_masks_{name}"].content for name in entry.other_methods}
    where = _eligible(test)
    found = {
        name: float(np.nanmean(auprc(each.scores[right], test.truth[right], where[right])))
        for name, each in masks.items()
    }
    names, counts = np.unique(masks["ours"].algorithm, return_counts=True)
    return Row(entry.name, entry.about, quality, found, str(names[counts.argmax()]), seconds)


def _asked(model: Any) -> AbstractContextManager[Any]:
    """The model itself; one behind an address runs until it is evaluated."""
    return model if isinstance(model, AbstractContextManager) else nullcontext(model)


def as_dataset(planted: Planted, **options: Any) -> Any:
    """The planted sequences as MLflow takes them."""
    from dynamask_mlflow.tracking.dataset import from_sequences

    given: dict[str, Any] = {"lengths": planted.lengths, "observed": planted.observed, "extras": planted.extras}
    given = {name: value for name, value in given.items() if value is not None and len(value)}
    return from_sequences(planted.x, targets=planted.y, **given, **options)


def _quality(predicted: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[np.bool_], float]:
    """Which instances count, and accuracy or R^2."""
    if np.issubdtype(y.dtype, np.integer):
        right = predicted == y
        return right, float(right.mean())
    values = predicted.reshape(y.shape)
    return np.ones(len(y), dtype=np.bool_), float(1 - np.square(values - y).sum() / np.square(y - y.mean(0)).sum())


def _eligible(planted: Planted) -> NDArray[np.bool_]:
    where = np.ones(planted.x.shape, dtype=np.bool_)
    if planted.lengths is not None:
        where &= (np.arange(planted.x.shape[1]) < planted.lengths[:, None])[:, :, None]
    return where if planted.observed is None else where & planted.observed
