"""Networks of torch that differentiate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from dynamask_mlflow.experiments.zoo.entry import Entry
from dynamask_mlflow.experiments.zoo.networks import Gru, Inception, Tcn
from dynamask_mlflow.experiments.zoo.planted import CHANNELS, Planted
from dynamask_mlflow.experiments.zoo.training import train_network


def plain(build: Callable[[], nn.Module]) -> Callable[[Planted, str], str]:
    """Register a network of one input by `mlflow.pytorch`, as most teams do."""

    def register(planted: Planted, name: str) -> str:
        import mlflow.pytorch

        network = train_network(build, {"x": planted.x}, planted.y)
        return _uri(
            mlflow.pytorch.log_model(
                network,
                name=name,
                input_example=planted.x[:2],
                registered_model_name=name,
                serialization_format="pt2",
                pip_requirements=["torch"],  # found out by loading the model in a process of its own otherwise
            )
        )

    return register


def _uri(info: Any) -> str:
    return f"models:/{info.name}/{info.registered_model_version}"


ENTRIES = (
    Entry("gru", "one tensor (B, T, d), `mlflow.pytorch`", plain(lambda: Gru(CHANNELS))),
    Entry("tcn", "dilated convolutions", plain(lambda: Tcn(CHANNELS))),
    Entry("inception", "InceptionTime-like", plain(lambda: Inception(CHANNELS))),
)
