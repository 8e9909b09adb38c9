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
from dynamask_mlflow.audit.statistics.effect import Z975, Effect, moved_share, provable_move, total_variation
from dynamask_mlflow.audit.statistics.groups import Group, GroupShift, group_differences, group_drift
from dynamask_mlflow.audit.statistics.inputs import (
    LEVELS,
    UNKNOWN,
    Codes,
    InputTest,
    decile_codes,
    decile_edges,
    input_test,
    staged_input_test,
)
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels, attention, in_blocks, shares
from dynamask_mlflow.audit.statistics.multiplicity import (
    benjamini_hochberg,
    holm,
    ranked,
    scaled,
    standardized,
    step_down,
)
from dynamask_mlflow.audit.statistics.performance import (
    classification_scores,
    recalibrated,
    regression_scores,
    weighted_residuals,
)
from dynamask_mlflow.audit.statistics.permutation import FEW, Permutations, mean_differences, permuted_labels
from dynamask_mlflow.audit.statistics.predictions import (
    PredictionTest,
    Shift,
    calibration_test,
    paired_performance,
    paired_shift,
    prediction_test,
    staged_calibration_test,
    staged_prediction_test,
)
from dynamask_mlflow.audit.statistics.quality import ScaledShift, compare_means, quality_test, staged_quality_test
from dynamask_mlflow.audit.statistics.ranking import ndcg
from dynamask_mlflow.audit.statistics.slice_inputs import SliceInput, slice_input_test, staged_slice_input_test
from dynamask_mlflow.audit.statistics.slices import Rows, Slice, change_point, search_slices, smallest_slice
from dynamask_mlflow.audit.statistics.trust import TrustResult, check_trust
from dynamask_mlflow.audit.statistics.versions import VersionShift, compare_versions

__all__ = [
    "FEW",
    "LEVELS",
    "UNKNOWN",
    "Z975",
    "Bools",
    "CanaryResult",
    "CauseSplit",
    "Codes",
    "DriftTest",
    "Effect",
    "Floats",
    "Group",
    "GroupShift",
    "InputTest",
    "Labels",
    "Permutations",
    "PredictionTest",
    "Rows",
    "ScaledShift",
    "Shift",
    "Slice",
    "SliceInput",
    "TrustResult",
    "VersionShift",
    "attention",
    "benjamini_hochberg",
    "calibration_test",
    "change_point",
    "check_trust",
    "classification_scores",
    "compare_means",
    "compare_refit",
    "compare_versions",
    "decile_codes",
    "decile_edges",
    "drift_test",
    "group_differences",
    "group_drift",
    "holm",
    "in_blocks",
    "input_test",
    "mean_differences",
    "moved_share",
    "ndcg",
    "noise_floor",
    "paired_performance",
    "paired_shift",
    "permuted_labels",
    "prediction_test",
    "provable_move",
    "quality_test",
    "ranked",
    "recalibrated",
    "regression_scores",
    "rounding_limit",
    "rounding_noise",
    "scaled",
    "search_slices",
    "shares",
    "slice_input_test",
    "smallest_slice",
    "split_causes",
    "staged_calibration_test",
    "staged_drift_test",
    "staged_input_test",
    "staged_prediction_test",
    "staged_quality_test",
    "staged_slice_input_test",
    "standardized",
    "step_down",
    "total_variation",
    "weighted_residuals",
]
