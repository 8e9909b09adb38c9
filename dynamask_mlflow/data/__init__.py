"""Hospital tables to tensors: sources, feature sets, hour blocks, splits, contracts, a synthetic hospital.

Knows nothing of MLflow. Public names load on first use.
"""

from typing import TYPE_CHECKING

from dynamask_mlflow._lazy import lazy_names

if TYPE_CHECKING:
    from dynamask_mlflow.data.dataset import StayDataset
    from dynamask_mlflow.data.errors import DataError, Finding
    from dynamask_mlflow.data.features import FeatureSet, load_feature_set
    from dynamask_mlflow.data.from_arrays import dataset_from_arrays
    from dynamask_mlflow.data.pipeline import BuildConfig, build
    from dynamask_mlflow.data.preprocess import Preprocessing
    from dynamask_mlflow.data.sources import open_source

_HOMES = {
    "BuildConfig": "pipeline",
    "DataError": "errors",
    "FeatureSet": "features",
    "Finding": "errors",
    "Preprocessing": "preprocess",
    "StayDataset": "dataset",
    "build": "pipeline",
    "dataset_from_arrays": "from_arrays",
    "load_feature_set": "features",
    "open_source": "sources",
}

__all__ = [
    "BuildConfig",
    "DataError",
    "FeatureSet",
    "Finding",
    "Preprocessing",
    "StayDataset",
    "build",
    "dataset_from_arrays",
    "load_feature_set",
    "open_source",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
