"""Two windows compared: the arrays of an audit in (`AuditArrays`), every test between them out (`ComparisonResult`)."""

from dynamask_mlflow.audit.comparison.arrays import AuditArrays, MadeFrom, load_arrays
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
    "AuditArrays",
    "ComparisonResult",
    "MadeFrom",
    "SubgroupTest",
    "compare_arrays",
    "compare_subgroups",
    "compare_windows",
    "load_arrays",
    "not_compared",
    "slices_of",
    "trust_of",
]
