"""Train on a built dataset, log everything to MLflow, register the model and give it its alias."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow.training.config import TrainConfig
from dynamask_mlflow.training.loop import Epoch, Fit, fit, predict
from dynamask_mlflow.training.scores import calibration, score

if TYPE_CHECKING:
    from dynamask_mlflow.data.dataset import StayDataset

DIGEST_TAG = "dynamask.dataset_digest"


@dataclass(frozen=True)
class Registered:
    """Where the trained model is, and how good it is on the test stays."""

    run_id: str
    model_id: str
    model_uri: str
    name: str | None
    version: str | None
    scores: dict[str, float]


def train_and_register(
    dataset: StayDataset,
    config: TrainConfig | None = None,
    *,
    experiment: str = "dynamask",
    registered_model_name: str | None = None,
    alias: str | None = None,
    run_name: str | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Registered:
    """Fit the paper's GRU on the training stays, score it on the test stays, log and register it.

    >>> from dynamask_mlflow.data import BuildConfig, build, open_source
    >>> from dynamask_mlflow.data.hospital import HospitalConfig, synthesize
    >>> tables = synthesize("tables", HospitalConfig(stays=200), overwrite=True)
    >>> dataset = build(open_source("synthetic", str(tables)), BuildConfig(threads=1))
    >>> done = train_and_register(dataset, TrainConfig(units=4, epochs=1), registered_model_name="small")
    >>> done.model_uri
    'models:/small/1'
    """
    import mlflow

    config = config or TrainConfig()
    parts = {name: dataset.part(name) for name in ("train", "validation", "test")}
    unknown = {name: int(np.isnan(part.labels).sum()) for name, part in parts.items()}
    if any(unknown.values()):
        raise ValueError(f"Expected a label for every stay to train on, but {unknown} have none.")
    fitted = fit(
        (parts["train"].x, parts["train"].labels),
        (parts["validation"].x, parts["validation"].labels),
        config,
        on_epoch,
    )
    scores = {name: score(predict(fitted.model, part.x), part.labels) for name, part in parts.items()}
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=run_name or "train") as run:
        _log_inputs(dataset, parts, config)
        _log_curves(run.info.run_id, fitted, scores)
        mlflow.log_table(_calibration_table(fitted, parts["test"]), "calibration.json")
        mlflow.log_dict(dict(dataset.report), "dataset_report.json")
        info = _log_model(fitted, dataset, config, registered_model_name)
    version = None if info.registered_model_version is None else str(info.registered_model_version)
    if registered_model_name and version and alias:
        mlflow.MlflowClient().set_registered_model_alias(registered_model_name, alias, version)
    return Registered(
        run_id=run.info.run_id,
        model_id=str(info.model_id),
        model_uri=str(ModelUri(str(registered_model_name), version=version)) if version else str(info.model_uri),
        name=registered_model_name,
        version=version,
        scores=scores["test"],
    )


def _log_inputs(dataset: StayDataset, parts: dict[str, StayDataset], config: TrainConfig) -> None:
    import mlflow

    from dynamask_mlflow.tracking.dataset import from_sequences

    mlflow.set_tag(DIGEST_TAG, dataset.digest)
    mlflow.log_params({**config.to_dict(), "feature_set": dataset.preprocessing.feature_set})
    for name, part in parts.items():
        described = from_sequences(**part.sequence_arrays(), name=name)
        mlflow.log_input(described, context={"train": "training"}.get(name, name))


def _log_curves(run_id: str, fitted: Fit, scores: dict[str, dict[str, float]]) -> None:
    """Losses by epoch and scores by part, in one request."""
    import time

    import mlflow
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    entries: list[Metric] = []
    for epoch in fitted.history:
        for name in ("train_loss", "validation_loss", "validation_auroc"):
            entries.append(Metric(name, float(getattr(epoch, name)), now, epoch.epoch))
    for part, values in scores.items():
        entries += [Metric(f"{part}_{name}", float(value), now, 0) for name, value in values.items()
                    if (part, name) != ("validation", "auroc")]  # fmt: skip
    entries.append(Metric("best_epoch", float(fitted.best.epoch), now, 0))
    mlflow.MlflowClient().log_batch(run_id, metrics=entries)


def _calibration_table(fitted: Fit, test: StayDataset) -> dict[str, Any]:
    rows = calibration(predict(fitted.model, test.x), test.labels)
    return {key: [row[key] for row in rows] for key in ("predicted", "observed", "stays")}


def _log_model(fitted: Fit, dataset: StayDataset, config: TrainConfig, registered_model_name: str | None) -> Any:
    from dynamask_mlflow import log_model

    return log_model(
        fitted.model,
        name="model",
        task="classification",
        input_example=dataset.x[:2],
        channel_names=dataset.channel_names,
        times=list(dataset.times),
        preprocessing=dataset.preprocessing.to_dict(),
        labels=_labels(dataset),
        registered_model_name=registered_model_name,
        params={"units": config.units, "dataset_digest": dataset.digest},
    )


_WRITTEN = {"C": "°C", "F": "°F"}  # units that feature sets abbreviate


def _labels(dataset: StayDataset) -> dict[str, Any]:
    """What the report calls things; the dataset's outcome is death in hospital."""
    known = dataset.preprocessing
    return {
        "class_names": ("survival", "death"),
        "time_unit": "hour",
        "channel_labels": known.labels or known.channel_names,
        "units": tuple(_WRITTEN.get(unit, unit) for unit in known.units),
    }
