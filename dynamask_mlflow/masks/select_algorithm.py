"""Which algorithm explains an answer: chosen by the answer's shape, the target and the settings alone."""

from __future__ import annotations

from typing import Literal

from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.target_spec import Target

Algorithm = Literal["sequence", "every step", "deletion"]


def select_algorithm(config: ExplainConfig, target: Target, output_steps: int, task: str) -> Algorithm:
    """ "sequence" explains one number, "every step" all answers of a model that gives one at each step.

    "deletion" is the user's choice (`deletion=True`): masks of what changes the prediction most when removed. A loss of
    one's own also asks for a fit by descent.
    """
    if config.deletion:
        return "deletion"
    usual = ("auto", "margin") if task == "classification" else ("auto", "squared")
    if target.is_auto and (output_steps > 1 or config.loss not in usual):
        return "every step"
    return "sequence"
