"""What the pages of the docs take for granted: a dataset `icu`, a registered model, arrays with the usual names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import torch
from stores import new_store
from torch import nn

import dynamask_mlflow
from dynamask_mlflow.data.dataset import StayDataset
from dynamask_mlflow.data.preprocess import Preprocessing

CHANNELS = ("HeartRate", "Lactate", "SpO2", "Temp")
STEPS = 12
MONTHS = {"2025-06": 220, "2025-12": 110, "2026-03": 220}


class ReadsLactate(nn.Module):
    """Lactate and heart rate late in the stay raise the risk."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.zeros(STEPS, len(CHANNELS))
        weight[6:, 1], weight[8:, 0] = 1.0, 0.5
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = (x * self.weight).sum(dim=(1, 2)) - 1.0
        return torch.stack([torch.zeros_like(score), score], dim=1)


def dataset() -> StayDataset:
    rng = np.random.default_rng(0)
    n = sum(MONTHS.values())
    x = rng.normal(size=(n, STEPS, len(CHANNELS))).astype(np.float32)
    with torch.no_grad():
        risk = torch.softmax(ReadsLactate()(torch.tensor(x)), dim=1)[:, 1].numpy()
    windows = np.repeat(list(MONTHS), list(MONTHS.values()))
    days = np.concatenate([np.arange(count) % 28 for count in MONTHS.values()])
    admitted = (windows.astype("datetime64[M]").astype("datetime64[D]") + days).astype("datetime64[s]")
    statistics = Preprocessing(
        channel_names=CHANNELS,
        hours=STEPS,
        mean=(90.0, 2.0, 96.0, 37.0),
        std=(15.0, 1.5, 3.0, 0.8),
        default=(90.0, 2.0, 96.0, 37.0),
        fill=("forward",) * 4,
        units=("bpm", "mmol/L", "%", "C"),
        feature_set="docs",
        feature_set_version=1,
        feature_set_digest="docs",
        fitted_on_stays=n,
        fitted_on_patients=n,
    )
    return StayDataset(
        x=x,
        observed=np.ones(x.shape, dtype=bool),
        ids=np.arange(n),
        patient_ids=np.arange(n),
        labels=(rng.random(n) < risk).astype(np.float32),
        splits=np.where(windows < "2026", "test", "later").astype(np.str_),
        windows=windows.astype(np.str_),
        admitted=admitted,
        times=tuple(float(hour) for hour in range(STEPS)),
        channel_names=CHANNELS,
        preprocessing=statistics,
        report={"findings": [], "exclusions": [], "stays_in": n},
        attributes={"sex": np.where(np.arange(n) % 2 == 0, "female", "male"), "age_group": np.full(n, "65-79")},
    )


def make(folder: Path) -> dict[str, Any]:
    """Write dataset and registry into `folder`; returns the names that the pages use."""
    stays = dataset()
    stays.save(folder / "icu")
    uri = new_store(folder)
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    for name in ("dynamask", "dynamask-audits"):
        mlflow.create_experiment(name, artifact_location=(folder / "artifacts" / name).as_uri())
    mlflow.set_experiment("dynamask")
    network = ReadsLactate()
    info = dynamask_mlflow.log_model(
        network,
        name="gru",
        task="classification",
        input_example=stays.x[:2],
        channel_names=CHANNELS,
        registered_model_name="icu-mortality",
        pip_requirements=["torch"],
    )
    client = mlflow.MlflowClient()
    version = client.get_model_version("icu-mortality", "1")
    for _ in range(4):
        client.create_model_version("icu-mortality", version.source, info.run_id, model_id=info.model_id)
    client.set_registered_model_alias("icu-mortality", "champion", "3")
    client.create_registered_model("from-somewhere")
    client.create_model_version("from-somewhere", version.source, info.run_id, model_id=info.model_id)
    test = stays.part("test")
    hours = list(range(STEPS))
    table = pd.DataFrame(
        [
            {"stay": int(test.ids[i]), "hour": t, "HeartRate": test.x[i, t, 0], "Lactate": test.x[i, t, 1], "died": 0}
            for i in range(4)
            for t in range(STEPS)
        ]
    )
    died = test.labels.astype(np.int64)
    return {
        "x": test.x,
        "y": died,
        "died": died,
        "stays": test.ids.tolist(),
        "stay_ids": test.ids.tolist(),
        "ids": test.ids.tolist(),
        "channels": list(CHANNELS),
        "hours": hours,
        "lengths": np.full(len(test), STEPS),
        "observed": test.observed,
        "table": table,
        "model": network,
        "network": network,
        "mean": list(test.preprocessing.mean),
        "std": list(test.preprocessing.std),
        "mlflow": mlflow,
        "torch": torch,
        "np": np,
    }
