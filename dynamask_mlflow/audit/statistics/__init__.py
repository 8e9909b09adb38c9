"""What the audit's numbers rest on: pure functions on arrays, without MLflow, torch or files."""

from dynamask_mlflow.audit.statistics.canary import (
    CanaryResult,
    compare_refit,
    noise_floor,
    rounding_limit,
    rounding_noise,
)
from dynamask_mlflow.audit.statistics.causes import CauseSplit, split_causes
from dynamask_mlflow.audit.statistics.drift import DriftTest, drift_test, staged_drift_test
from dynamask_mlflow.audit.statistics.effect import Effect, moved_share, total_variation
from dynamask_mlflow.audit.statistics.inputs import InputTest, input_test
from dynamask_mlflow.audit.statistics.marginals import attention, in_blocks, shares
from dynamask_mlflow.audit.statistics.multiplicity import benjamini_hochberg, holm, step_down
from dynamask_mlflow.audit.statistics.permutation import Permutations, permuted_labels
from dynamask_mlflow.audit.statistics.quality import QualityShift, quality_test, staged_quality_test
from dynamask_mlflow.audit.statistics.ranking import ndcg
from dynamask_mlflow.audit.statistics.trust import TrustResult, check_trust
from dynamask_mlflow.audit.statistics.versions import VersionShift, compare_versions

__all__ = [
    "CanaryResult",
    "CauseSplit",
    "DriftTest",
    "Effect",
    "InputTest",
    "Permutations",
    "QualityShift",
    "TrustResult",
    "VersionShift",
    "attention",
    "benjamini_hochberg",
    "check_trust",
    "compare_refit",
    "compare_versions",
    "drift_test",
    "holm",
    "in_blocks",
    "input_test",
    "moved_share",
    "ndcg",
    "noise_floor",
    "permuted_labels",
    "quality_test",
    "rounding_limit",
    "rounding_noise",
    "shares",
    "split_causes",
    "staged_drift_test",
    "staged_quality_test",
    "step_down",
    "total_variation",
]
