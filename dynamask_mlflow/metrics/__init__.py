"""Metrics of masks and saliency scores: pure functions on arrays, batched over the leading axes."""

from dynamask_mlflow.metrics.calibration import calibration_bands
from dynamask_mlflow.metrics.cells import (
    mask_from_scores,
    random_masks,
    replace_by_time_mean,
    replace_cells,
    top_cells,
)
from dynamask_mlflow.metrics.cumulative import OutputReading, cpd, cpp, cumulative_difference
from dynamask_mlflow.metrics.curves import aup, aur
from dynamask_mlflow.metrics.erasure import comprehensiveness, probability_drop, sufficiency
from dynamask_mlflow.metrics.information import (
    EPSILON,
    entropy,
    information,
    information_ratio,
    normalized_entropy,
    normalized_information,
)
from dynamask_mlflow.metrics.paired import compare_with_controls, mean_interval, mean_of_known, paired_p
from dynamask_mlflow.metrics.profile import Profile, mask_profile
from dynamask_mlflow.metrics.ranking import auprc, auroc, rank_correlation
from dynamask_mlflow.metrics.shift import accuracy_shift, cross_entropy_shift, squared_error_shift

__all__ = [
    "EPSILON",
    "OutputReading",
    "Profile",
    "accuracy_shift",
    "aup",
    "auprc",
    "aur",
    "auroc",
    "calibration_bands",
    "compare_with_controls",
    "comprehensiveness",
    "cpd",
    "cpp",
    "cross_entropy_shift",
    "cumulative_difference",
    "entropy",
    "information",
    "information_ratio",
    "mask_from_scores",
    "mask_profile",
    "mean_interval",
    "mean_of_known",
    "normalized_entropy",
    "normalized_information",
    "paired_p",
    "probability_drop",
    "random_masks",
    "rank_correlation",
    "replace_by_time_mean",
    "replace_cells",
    "squared_error_shift",
    "sufficiency",
    "top_cells",
]
