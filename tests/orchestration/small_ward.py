"""A ward of short stays whose explanations are known: the network reads one event, in a channel that is drawn.

Until the month of the change most events are in Lactate, from then on in SpO2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from stores import new_store
from torch import Tensor, nn
from ward_settings import SETTINGS

STEPS, CHANNELS = 12, ("HeartRate", "Lactate", "SpO2", "Temp")
PER_MONTH, MODEL = 60, "ward-risk"
MONTHS = ("2026-01", "2026-02", "2026-03", "2026-04", "2026-05")
BEFORE, AFTER = (0.3, 0.6, 0.1, 0.0), (0.3, 0.1, 0.6, 0.0)


class EventNetwork(nn.Module):
    """Logits of (no event, an event): how far values rise above 1, in the first three channels."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 1.0, 1.0, 0.0]))

    def forward(self, x: Tensor) -> Tensor:
        risen = (torch.relu(x - 1) * self.weight).sum(dim=(1, 2))
        return torch.stack([torch.zeros_like(risen), 2 * risen - 4], dim=1)


def build_ward(
    folder: Path, changed_from: str = "2026-04", later: tuple[str, ...] = MONTHS, normal: str = "2025-06"
) -> Path:
    """Write the dataset: the months of `later`, and a test split of the month `normal` as what is normal."""
    from dynamask_mlflow.data.dataset import StayDataset
    from dynamask_mlflow.data.preprocess import Preprocessing

    rng = np.random.default_rng(0)
    months = [normal] * 2 * PER_MONTH + [month for month in later for _ in range(PER_MONTH)]
    n = len(months)
    x = 0.2 * rng.normal(size=(n, STEPS, len(CHANNELS))).astype(np.float32)
    for row, month in enumerate(months):
        channel = rng.choice(len(CHANNELS), p=AFTER if month >= changed_from else BEFORE)
        hour = rng.integers(0, STEPS - 1)
        x[row, hour : hour + 2, channel] += 3
    ones, zeros = (1.0,) * len(CHANNELS), (0.0,) * len(CHANNELS)
    preprocessing = Preprocessing(
        feature_set="ward", feature_set_version=1, feature_set_digest="ward", hours=STEPS, channel_names=CHANNELS,
        units=("1",) * len(CHANNELS), fill=("forward",) * len(CHANNELS), mean=zeros, std=ones, default=zeros,
        fitted_on_stays=n, fitted_on_patients=n,
    )  # fmt: skip
    dataset = StayDataset(
        x=x,
        observed=np.ones_like(x, dtype=bool),
        ids=np.arange(n),
        patient_ids=np.arange(n),
        labels=np.ones(n, dtype=np.float32),
        splits=np.array(["test" if month == normal else "later" for month in months]),
        windows=np.array(months),
        admitted=np.array([f"{month}-{1 + i % 28:02d}T08:00:00" for i, month in enumerate(months)], "datetime64[s]"),
        times=tuple(float(t) for t in range(STEPS)),
        channel_names=CHANNELS,
        preprocessing=preprocessing,
    )
    return dataset.save(folder)


def open_registry(uri: str, artifacts: Path) -> None:
    """A new MLflow with an experiment for audits and one for training, which is set."""
    import mlflow

    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    for name in ("dynamask-audits", "training"):
        mlflow.create_experiment(name, artifact_location=(artifacts / name).as_uri())
    mlflow.set_experiment("training")


def register(uri: str, artifacts: Path, model: str = MODEL) -> None:
    """Log and register the network as `champion`."""
    import mlflow

    import dynamask_mlflow

    open_registry(uri, artifacts)
    with mlflow.start_run():
        example = np.zeros((2, STEPS, len(CHANNELS)), dtype=np.float32)
        dynamask_mlflow.log_model(
            EventNetwork().eval(), name="model", task="classification", input_example=example,
            channel_names=CHANNELS, times=list(range(STEPS)), registered_model_name=model,
        )  # fmt: skip
    mlflow.MlflowClient().set_registered_model_alias(model, "champion", "1")


def make_ward(root: Path) -> str:
    """Data, a registered model and its reference, in a sqlite MLflow. Returns the reference's run."""
    data = build_ward(root / "data")
    uri = new_store(root)
    register(uri, root / "artifacts")
    return make_reference(uri, data, root / "store")


def make_reference(uri: str, data: Path, store: Path) -> str:
    """The reference, from the command's own function; its run."""
    import mlflow

    from dynamask_mlflow.audit import AuditConfig, build_reference

    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    done = build_reference(
        f"models:/{MODEL}@champion", str(data), "all", split="test", config=AuditConfig(**SETTINGS), store=str(store)
    )
    return done.run_id
