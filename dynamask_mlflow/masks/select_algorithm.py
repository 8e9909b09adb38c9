"""Which algorithm explains an answer: chosen by the answer's shape, the target and the settings alone."""

from __future__ import annotations

from typing import Literal

from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.target_spec import Target

Algorithm = Literal["sequence", "every step", "deletion"]


def select_algorithm(
    config: ExplainConfig, target: Target, output_steps: int, task: str, input_steps: int | None = None
) -> Algorithm:
    """ "sequence" explains one number, "every step" all answers of a model that gives one at each step.

    "deletion" is the user's choice (`deletion=True`): masks of what changes the prediction most when removed. A loss of
    one's own also asks for a fit by descent. Values at other than the input's steps are a forecast (B, H, d), which is
    one answer: all its horizons together.
    """
    if config.deletion:
        return "deletion"
    usual = ("auto", "margin") if task == "classification" else ("auto", "squared")
    forecast = task == "regression" and input_steps is not None and output_steps != input_steps
    if target.is_auto and ((output_steps > 1 and not forecast) or config.loss not in usual):
        return "every step"
    return "sequence"
