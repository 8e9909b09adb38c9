"""Dynamic masks for registered sequence models: which measurements, at which hours, the model relies on.

Everything public is loaded on first use, so that `import dynamask_mlflow` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dynamask_mlflow._version import __version__

if TYPE_CHECKING:
    from dynamask_mlflow.masks.config import ExplainConfig
    from dynamask_mlflow.masks.explain import explain
    from dynamask_mlflow.masks.result import Masks
    from dynamask_mlflow.tracking.flavor import (
        _load_pyfunc,
        get_default_pip_requirements,
        load_model,
        log_model,
        save_model,
    )

_HOMES = {
    "ExplainConfig": "dynamask_mlflow.masks.config",
    "Masks": "dynamask_mlflow.masks.result",
    "explain": "dynamask_mlflow.masks.explain",
    "_load_pyfunc": "dynamask_mlflow.tracking.flavor",
    "get_default_pip_requirements": "dynamask_mlflow.tracking.flavor",
    "load_model": "dynamask_mlflow.tracking.flavor",
    "log_model": "dynamask_mlflow.tracking.flavor",
    "save_model": "dynamask_mlflow.tracking.flavor",
}

__all__ = [
    "ExplainConfig",
    "Masks",
    "__version__",
    "_load_pyfunc",
    "explain",
    "get_default_pip_requirements",
    "load_model",
    "log_model",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
