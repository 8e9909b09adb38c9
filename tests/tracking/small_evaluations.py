"""The evaluator on small networks, as its tests call it."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest
from mlflow.models import EvaluationResult
from small_networks import NAMES, GRUClassifier, sequences

import dynamask_mlflow

X, Y = sequences(30)
QUICK = {"instances": 6, "steps": 30, "images": 1, "curve_areas": [0.1, 0.5]}


def data(**options: Any) -> Any:
    return mlflow.data.from_sequences(X, **{"targets": Y, "channel_names": NAMES, "name": "stays", **options})


def evaluate(model: Any, dataset: Any = None, model_type: str = "classifier", **options: Any) -> EvaluationResult:
    return mlflow.models.evaluate(
        model,
        data() if dataset is None else dataset,
        model_type=model_type,
        evaluators="dynamask",
        evaluator_config={**QUICK, **options},
    )


def numbers(result: EvaluationResult) -> dict[str, float]:
    """What depends on the model, data and settings alone."""
    return {k: v for k, v in result.metrics.items() if k.startswith("dynamask/") and "seconds" not in k}


def saved_classifier(network: GRUClassifier, folders: pytest.TempPathFactory, **options: Any) -> str:
    """The folder of a logged classifier, with the channels' names and whatever else is asked for."""
    path = folders.mktemp("models") / "gru"
    given = {"input_example": X[:2], "channel_names": NAMES, **options}
    dynamask_mlflow.save_model(network, path, task="classification", **given)
    return str(path)
