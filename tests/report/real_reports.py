"""Reports that the engine makes of real models, small and large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from dynamask_mlflow.evaluation.changes import explain_changes
from dynamask_mlflow.evaluation.compare import Evaluated, compare_evaluations
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import Evaluation, evaluate_masks
from dynamask_mlflow.evaluation.model_settings import Labels
from dynamask_mlflow.evaluation.report_data import report_data
from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.metrics import mask_profile
from dynamask_mlflow.report import ReportData


class Recurrent(torch.nn.Module):
    """A GRU; the risk, a value at each step, or a forecast of some hours."""

    def __init__(self, channels: int, outputs: int, each_step: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.each_step = each_step
        self.gru = torch.nn.GRU(channels, 8, batch_first=True)
        self.head = torch.nn.Linear(8, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states = self.gru(x)[0]
        answers: torch.Tensor = self.head(states if self.each_step else states[:, -1])
        return answers


class LastValues(torch.nn.Module):
    """A linear risk on the means of the last steps, fast at any size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        late = x[:, -max(1, x.shape[1] // 20) :].mean(1)
        logit = 3 * late[:, 0] - 2 * late[:, 1]
        return torch.stack([torch.zeros_like(logit), logit], dim=1)


def series(n: int, steps: int, channels: int) -> np.ndarray[Any, Any]:
    """Random walks that come back."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, steps, channels)).astype(np.float32)
    for t in range(1, steps):
        x[:, t] = 0.9 * x[:, t - 1] + 0.4 * x[:, t]
    return x


def evaluated(
    network: Any, x: np.ndarray[Any, Any], task: str, data: dict[str, Any], options: dict[str, Any]
) -> tuple[Evaluation, EvaluationConfig]:
    config = EvaluationConfig(
        instances=None, progress=False, sampling="first", curve_areas=(0.01, 0.1, 0.5), fast=True, **options
    )
    sequences = as_sequences(x, **data)
    found = evaluate_masks(network, sequences, task=task, config=config)
    if config.change_since is not None:
        found = replace(found, changes=explain_changes(network, found.sample, task=task, config=config))
    return found, config


def report(
    network: Any,
    x: np.ndarray[Any, Any],
    task: str = "classification",
    data: dict[str, Any] | None = None,
    **options: Any,
) -> ReportData:
    found, config = evaluated(network, x, task, data or {}, options)
    profile = mask_profile(found.main.masks.masks, found.sample.eligible, found.sample.exists)
    labels = Labels(("survival", "death"), "hour")
    return report_data(found, profile, config, model="a model", created_at="2026-01-01", labels=labels)


def compared() -> ReportData:
    x = series(12, 10, 4)
    sides = []
    for label, network in (("version 1", LastValues()), ("version 2", Recurrent(4, 2))):
        found, _ = evaluated(network, x, "classification", {}, {})
        sample = found.sample
        risks = found.outputs[:, 1].astype(np.float64)
        sides.append(
            Evaluated(label, found.main.masks, sample.ids, sample.channel_names, sample.times, risks, found.task)
        )
    return compare_evaluations(sides[0], sides[1], "2026-01-01")


def with_course() -> ReportData:
    targets = np.arange(24) % 2
    x = series(24, 24, 6)
    return report(
        Recurrent(6, 2), x, data={"targets": targets}, log_inputs=True, change_since=12, change_padding="carry"
    )


REPORTS: dict[str, Callable[[], ReportData]] = {
    "risk over a stay": with_course,
    "forecaster": lambda: report(
        Recurrent(4, 6),
        series(12, 24, 4),
        "regression",
        target="horizon:0",
        more_targets=("horizon:5",),
        log_inputs=True,
    ),
    "answers at each step": lambda: report(Recurrent(3, 1, each_step=True), series(6, 12, 3), "regression", steps=20),
    "T = 5,000": lambda: report(LastValues(), series(2, 5000, 3), log_inputs=True),
    "d = 500": lambda: report(LastValues(), series(3, 10, 500), log_inputs=True),
    "1 instance": lambda: report(LastValues(), series(1, 24, 5), log_inputs=True),
    "1,000 instances": lambda: report(LastValues(), series(1000, 48, 32)),
    "unequal lengths": lambda: report(
        LastValues(), series(6, 20, 4), data={"lengths": np.arange(6) * 2 + 10}, log_inputs=True
    ),
    "compare": compared,
}
