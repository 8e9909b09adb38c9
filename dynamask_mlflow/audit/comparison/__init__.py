"""Two windows compared: arrays in, a `ComparisonResult` out. Pure functions, without MLflow, torch or files."""

from dynamask_mlflow.audit.comparison.compare import (
    compare_arrays,
    compare_windows,
    slices_of,
    trust_of,
)
from dynamask_mlflow.audit.comparison.result import QUALITY_KINDS, QUALITY_NAMES, ComparisonResult, not_compared
from dynamask_mlflow.audit.comparison.subgroups import (
    ATTENTION,
    CALIBRATION,
    FAITHFULNESS,
    PREDICTED,
    SubgroupTest,
    compare_subgroups,
)

__all__ = [
    "ATTENTION",
    "CALIBRATION",
    "FAITHFULNESS",
    "PREDICTED",
    "QUALITY_KINDS",
    "QUALITY_NAMES",
    "ComparisonResult",
    "SubgroupTest",
    "compare_arrays",
    "compare_subgroups",
    "compare_windows",
    "not_compared",
    "slices_of",
    "trust_of",
]
