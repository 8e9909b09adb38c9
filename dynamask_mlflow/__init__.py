"""Dynamic masks for registered sequence models: which measurements, at which hours, the model relies on.

Everything public is loaded on first use, so that `import dynamask_mlflow` costs next to nothing.
"""

from typing import TYPE_CHECKING

from dynamask_mlflow._lazy import lazy_names
from dynamask_mlflow._logs import set_up_logging
from dynamask_mlflow._version import __version__

if TYPE_CHECKING:
    from dynamask_mlflow.masks.attribute import DynamicMask
    from dynamask_mlflow.masks.change.explain_change import explain_change
    from dynamask_mlflow.masks.change.result import Change
    from dynamask_mlflow.masks.config import ExplainConfig
    from dynamask_mlflow.masks.explain import explain
    from dynamask_mlflow.masks.result import Masks
    from dynamask_mlflow.tracking.endpoint import Endpoint
    from dynamask_mlflow.tracking.flavor import (
        get_default_pip_requirements,
        log_model,
        save_model,
    )
    from dynamask_mlflow.tracking.loading import _load_pyfunc, load_model

_HOMES = {
    "Change": "masks.change.result",
    "DynamicMask": "masks.attribute",
    "Endpoint": "tracking.endpoint",
    "ExplainConfig": "masks.config",
    "Masks": "masks.result",
    "explain": "masks.explain",
    "explain_change": "masks.change.explain_change",
    "_load_pyfunc": "tracking.loading",
    "get_default_pip_requirements": "tracking.flavor",
    "load_model": "tracking.loading",
    "log_model": "tracking.flavor",
    "save_model": "tracking.flavor",
}

__all__ = [
    "Change",
    "DynamicMask",
    "Endpoint",
    "ExplainConfig",
    "Masks",
    "__version__",
    "_load_pyfunc",
    "explain",
    "explain_change",
    "get_default_pip_requirements",
    "load_model",
    "log_model",
    "save_model",
]

set_up_logging()

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
