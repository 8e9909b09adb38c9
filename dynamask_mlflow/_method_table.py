"""Which function each method name stands for, as text.

The table lies beside the subpackages because it names two of them: `masks/` looks methods up by name and never knows
that `saliency/` exists.
"""

from __future__ import annotations

SALIENCY_METHODS = (
    "fo", "afo", "fp", "ig", "gs", "svs", "lime", "dl", "retain", "fit", "extrmask", "random",
    "ig_signed", "gs_signed", "svs_signed", "lime_signed", "dl_signed",
    "ig_mean", "ig_mean_signed", "ig_smooth",
)  # fmt: skip

METHODS: dict[str, str] = {
    "nested": "dynamask_mlflow.masks.nested:fit_nested",
    "forward": "dynamask_mlflow.masks.forward_answer:fit_forward",
    "paper": "dynamask_mlflow.masks.paper:fit_paper",
    **{name: f"dynamask_mlflow.saliency.methods:{name}" for name in SALIENCY_METHODS},
}
