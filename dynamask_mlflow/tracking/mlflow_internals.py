"""What this package needs of the inside of MLflow, which may change with any release, and whether it is there.

Nothing else in the package names what is private to MLflow's evaluators and to its check of parameters.

MLflow's classifier and regressor evaluators hand a table to the model and want one label or value a row back. A plain
network takes arrays (N, T, d) and gives logits, so that an evaluation with ["default", "dynamask"] would end in
MLflow's evaluator. For datasets of sequences, and for nothing else, the predictions are made here, or the evaluator is
left out with one line.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._logs import say
from dynamask_mlflow._secrets import first_line

if TYPE_CHECKING:
    from dynamask_mlflow.tracking.dataset import SequenceEvaluationDataset

_MARK = "_knows_sequences"
_TASKS = {"classifier": "classification", "regressor": "regression"}  # of MLflow's own evaluators
PARAMS_LOGGER = "mlflow.models.utils"
PARAMS_BEGIN, PARAMS_MIDDLE = "Unrecognized params ", " are ignored for inference. Supported params are: "


def default_evaluator() -> Any:
    """The class behind MLflow's own evaluators, or None, with one line, if it is not as this package knows it."""
    missing = _missing_evaluator()
    if missing:
        _say_once(f"{missing} Evaluate sequences with evaluators='dynamask' alone.")
        return None
    from mlflow.models.evaluation.default_evaluator import BuiltInEvaluator

    return BuiltInEvaluator


def check_params_warning() -> None:
    """Say in one line if unknown parameters of `predict` cannot be noticed."""
    missing = _missing_params_warning()
    if missing:
        _say_once(f"{missing} Misspelt params of predict() are ignored.")


def missing_internals() -> list[str]:
    """What is not as this package knows it; nothing with the versions that it was tested with."""
    return [text for text in (_missing_evaluator(), _missing_params_warning()) if text]


def _missing_evaluator() -> str:
    try:
        from mlflow.models.evaluation.default_evaluator import BuiltInEvaluator

        taken = inspect.signature(BuiltInEvaluator.evaluate).parameters
    except (ImportError, AttributeError, ValueError):
        return f"{_mlflow()} has no BuiltInEvaluator with evaluate()."
    wanted = [name for name in ("dataset", "model_type", "model") if name not in taken]
    return f"{_mlflow()}: BuiltInEvaluator.evaluate() takes no {', '.join(wanted)}." if wanted else ""


def _missing_params_warning() -> str:
    try:
        from mlflow.models import utils

        source = inspect.getsource(utils)
    except (ImportError, OSError, TypeError):
        return f"{_mlflow()} has no source of mlflow.models.utils to look at."
    known = PARAMS_BEGIN in source and "are ignored for inference" in source and "Supported params are" in source
    return "" if known else f"{_mlflow()} warns of unknown params in other words."


def _mlflow() -> str:
    import mlflow

    return f"MLflow {mlflow.__version__}"


@functools.cache
def _say_once(message: str) -> None:
    say(f"dynamask: {message}")


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
        if predictions is not None and model_type == "classifier":
            predictions = _named_as(predictions, dataset.sequences.targets, _class_names(model))
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


def _class_names(model: Any) -> Sequence[str] | None:
    from dynamask_mlflow.tracking.open_network import as_given, settings_of

    settings = settings_of(as_given(model))
    return None if settings is None else settings.class_names


def _named_as(
    predictions: NDArray[Any], targets: NDArray[Any] | None, names: Sequence[str] | None
) -> NDArray[Any] | None:
    """Predicted classes by their names where the targets are names; None, with one line, where these are not known."""
    by_number = predictions.dtype.kind in "biuf" and targets is not None and targets.dtype.kind not in "biuf"
    if not by_number:
        return predictions
    classes = predictions.astype(np.int64)
    if names is None or classes.max() >= len(names) or classes.min() < 0:
        say(
            "dynamask: MLflow's default evaluator is left out: the targets are names, the model answers with numbers. "
            "Say which is which with log_model(..., labels={'class_names': [...]})."
        )
        return None
    return np.asarray(names, dtype=object)[classes]


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


class RefuseUnknownParams(logging.Filter):
    """Raises where MLflow warns that parameters of this flavor's models are ignored; other models keep the warning."""

    def __init__(self, known: frozenset[str]) -> None:
        super().__init__()
        self.known = known

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if not message.startswith(PARAMS_BEGIN):
            return True
        given, _, supported = message.removeprefix(PARAMS_BEGIN).partition(PARAMS_MIDDLE)
        if any(repr(name) not in supported for name in self.known):
            return True
        from mlflow.exceptions import MlflowException

        names = [name.strip(" '\"") for name in given.strip("[]").split(",")]
        near = [match for name in names for match in difflib.get_close_matches(name, self.known, n=1)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise MlflowException.invalid_parameter_value(
            f"Expected params among {', '.join(sorted(self.known))}, but got {', '.join(names)}.{hint}"
        )


def refuse_unknown_params(known: frozenset[str]) -> None:
    """Have unknown parameters refused in this process; a second call changes nothing."""
    check_params_warning()
    logger = logging.getLogger(PARAMS_LOGGER)
    if not any(isinstance(found, RefuseUnknownParams) and found.known == known for found in logger.filters):
        logger.addFilter(RefuseUnknownParams(known))
