"""What this package needs of the inside of MLflow, which may change with any release, and whether it is there.

Nothing else in the package names what is private to MLflow's evaluators and to its check of parameters.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

from dynamask_mlflow._logs import say

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
