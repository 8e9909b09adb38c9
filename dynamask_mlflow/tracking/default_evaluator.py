"""MLflow's own evaluators on sequences: they get labels or values of the right shape, or are left out with one line.

MLflow's classifier and regressor evaluators hand a table to the model and want one label or value a row back. A plain
network takes arrays (N, T, d) and gives logits, so that an evaluation with ["default", "dynamask"] would end in
MLflow's evaluator. For datasets of sequences, and for nothing else, the predictions are made here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._logs import say
from dynamask_mlflow._secrets import first_line
from dynamask_mlflow.tracking.mlflow_internals import default_evaluator

if TYPE_CHECKING:
    from dynamask_mlflow.tracking.evaluation_dataset import SequenceEvaluationDataset

_MARK = "_knows_sequences"
_TASKS = {"classifier": "classification", "regressor": "regression"}


class WithPredictions:
    """A model whose predictions are known already."""

    def __init__(self, predictions: NDArray[Any]) -> None:
        self._predictions = predictions

    def predict(self, data: Any, params: Any = None) -> NDArray[Any]:
        return self._predictions[: len(data)]


def teach_default_evaluator() -> None:
    """Let MLflow's built-in evaluators know sequences; a second call does nothing."""
    evaluator = default_evaluator()
    if evaluator is None:
        return
    usual = evaluator.evaluate
    if getattr(usual, _MARK, False):
        return

    @functools.wraps(usual)
    def evaluate(self: Any, *, dataset: Any, model_type: Any, model: Any = None, **others: Any) -> Any:
        if not hasattr(dataset, "sequences") or model_type not in _TASKS:
            return usual(self, dataset=dataset, model_type=model_type, model=model, **others)
        if getattr(self, "name", "") == "shap" or model is None:
            return None  # explaining sequences is what the evaluator `dynamask` does
        predictions = _predictions(model, dataset, _TASKS[model_type])
        if predictions is None:
            return None
        stand_in = WithPredictions(predictions)
        return usual(self, dataset=dataset, model_type=model_type, model=stand_in, **others)

    setattr(evaluate, _MARK, True)
    evaluator.evaluate = evaluate


def _predictions(model: Any, dataset: SequenceEvaluationDataset, task: str) -> NDArray[Any] | None:
    """(N,) labels or values, or None, with one line, where there are none."""
    targets = dataset.sequences.targets
    if targets is None or targets.ndim > 1:
        say(
            "dynamask: MLflow's default evaluator is left out: it wants one target for each sequence, but got "
            f"{'none' if targets is None else f'targets of shape {targets.shape}'}."
        )
        return None
    usual = _usual(model, dataset, task)
    if usual is not None:
        return usual
    try:
        found = _read(model, dataset, task)
    except Exception as error:
        why = first_line(error)
        say(f"dynamask: MLflow's default evaluator is left out: the model's predictions cannot be read: {why}")
        return None
    if found.ndim > 1:
        say(
            "dynamask: MLflow's default evaluator is left out: it wants one label or value for each sequence, but the "
            f"model answers with {found.shape[1:]} for each."
        )
        return None
    return found


def _usual(model: Any, dataset: SequenceEvaluationDataset, task: str) -> NDArray[Any] | None:
    """What the model itself predicts from MLflow's table, if that is one label or value a row."""
    try:
        found = np.asarray(model.predict(dataset.features_data))
    except Exception:
        return None
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1 or len(found) != len(dataset.sequences):
        return None
    if task == "classification" and found.dtype.kind == "f" and not (found == np.round(found)).all():
        return None
    return found


def _read(model: Any, dataset: SequenceEvaluationDataset, task: str) -> NDArray[Any]:
    """Classes (N,) or values by the same reading that the masks have; (N, ...) where there are several."""
    from dynamask_mlflow.evaluation.config import EvaluationConfig
    from dynamask_mlflow.masks.forward_only import ForwardOnly, Labelled
    from dynamask_mlflow.masks.predict import predict
    from dynamask_mlflow.metrics.shift import predicted_class
    from dynamask_mlflow.tracking.forward_model import own_labels
    from dynamask_mlflow.tracking.open_network import open_network

    sequences = dataset.sequences
    network, config = open_network(model, sequences, task, EvaluationConfig(), quiet=True)
    if task == "classification" and isinstance(network, ForwardOnly):
        labels = own_labels(network, sequences, config)
        if labels is not None:
            return labels
    outputs = predict(network, sequences.x, task=task, side=sequences.side, config=config)
    if task == "regression":
        return np.asarray(outputs[:, 0] if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs)
    classes = predicted_class(outputs.astype(np.float64))
    labels = network.classes if isinstance(network, ForwardOnly | Labelled) else None
    return np.asarray(classes if labels is None else labels[classes])
