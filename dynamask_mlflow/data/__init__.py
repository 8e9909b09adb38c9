"""Hospital tables to tensors: sources, feature sets, hour blocks, splits, contracts, a synthetic hospital.

Knows nothing of MLflow. Public names load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamask_mlflow.data.dataset import StayDataset
    from dynamask_mlflow.data.errors import DataError, Finding
    from dynamask_mlflow.data.features import FeatureSet, load_feature_set
    from dynamask_mlflow.data.pipeline import BuildConfig, build
    from dynamask_mlflow.data.preprocess import Preprocessing
    from dynamask_mlflow.data.sources import open_source

_HOMES = {
    "BuildConfig": "dynamask_mlflow.data.pipeline",
    "DataError": "dynamask_mlflow.data.errors",
    "FeatureSet": "dynamask_mlflow.data.features",
    "Finding": "dynamask_mlflow.data.errors",
    "Preprocessing": "dynamask_mlflow.data.preprocess",
    "StayDataset": "dynamask_mlflow.data.dataset",
    "build": "dynamask_mlflow.data.pipeline",
    "load_feature_set": "dynamask_mlflow.data.features",
    "open_source": "dynamask_mlflow.data.sources",
}

__all__ = [
    "BuildConfig",
    "DataError",
    "FeatureSet",
    "Finding",
    "Preprocessing",
    "StayDataset",
    "build",
    "load_feature_set",
    "open_source",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
