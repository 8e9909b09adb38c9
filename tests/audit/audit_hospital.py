"""A hospital of four channels, small enough to audit in seconds, and a model whose attention is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.data.preprocess import Preprocessing

NAMES = ("HeartRate", "Lactate", "SpO2", "Temp")
STEPS = 12
SETTINGS = {
    "steps": 4,
    "progress": False,
    "device": "cpu",
    "minimum": 40,
    "instances": 80,
    "reference_instances": 160,
    "anchors": 12,
    "tolerance": 0.2,
    "attention_area": 0.1,
    "permutations": 499,
    "audits_per_year": 1,
    "report_instances": 5,
}
# month -> stays; what happens in it is in `_tell`
MONTHS = {"2026-01": 170, "2026-02": 90, "2026-03": 90, "2026-04": 90, "2026-05": 20, "2026-06": 90}


class Lactate(nn.Module):
    """Lactate and heart rate, the higher the more, late in the stay; not a number where Temp lies below -5."""

    def __init__(self, lactate: float = 1.0, heart_rate: float = 0.6) -> None:
        super().__init__()
        weight = torch.zeros(STEPS, 4)
        weight[6:, 1], weight[6:, 0] = lactate, heart_rate
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        score = (nn.functional.softplus(x, beta=2) * self.weight).sum(dim=(1, 2)) - 2.0
        valid = torch.sqrt(x[:, :, 3].mean(dim=1) + 5.0) * 0
        return torch.stack([torch.zeros_like(score), score + valid], dim=1)


def _tell(month: str, x: np.ndarray) -> None:
    if month == "2026-03":
        x[:, :, 1] -= 4.0  # lactate is never high: only the heart rate is left to look at
    if month == "2026-04":
        x[: len(x) // 2, :, 3] = -9.0  # the model breaks on these


def hospital(names: tuple[str, ...] = NAMES) -> StayDataset:
    rng = np.random.default_rng(0)
    x, admitted, windows = [], [], []
    for month, count in MONTHS.items():
        part = rng.normal(size=(count, STEPS, 4)).astype(np.float32)
        part[:, :, 3] *= 0.1
        _tell(month, part)
        x.append(part)
        windows += [month] * count
        admitted += [np.datetime64(month, "D") + int(day) for day in rng.integers(0, 28, count)]
    values = np.concatenate(x)
    n = len(values)
    return StayDataset(
        x=values,
        observed=np.ones(values.shape, dtype=bool),
        ids=np.arange(n),
        patient_ids=np.arange(n) // 2 * 2 + 10_000,
        labels=rng.integers(0, 2, n).astype(np.float32),
        splits=np.full(n, "test"),
        windows=np.asarray(windows),
        admitted=np.asarray(admitted, dtype="datetime64[s]"),
        times=tuple(float(t) for t in range(STEPS)),
        channel_names=names,
        preprocessing=Preprocessing(
            feature_set="tiny",
            feature_set_version=1,
            feature_set_digest="0",
            hours=STEPS,
            channel_names=names,
            units=("",) * 4,
            fill=("forward",) * 4,
            mean=(0.0,) * 4,
            std=(1.0,) * 4,
            default=(0.0,) * 4,
            fitted_on_stays=n,
            fitted_on_patients=n,
        ),
    )


def register(folder: Path, network: nn.Module, name: str = "icu") -> str:
    import mlflow

    from dynamask_mlflow import log_model

    with mlflow.start_run():
        info = log_model(
            network,
            name="model",
            task="classification",
            input_example=np.zeros((2, STEPS, 4), dtype=np.float32),
            channel_names=NAMES,
            times=[float(t) for t in range(STEPS)],
            registered_model_name=name,
        )
    version = str(info.registered_model_version)
    mlflow.MlflowClient().set_registered_model_alias(name, "champion", version)
    return version
