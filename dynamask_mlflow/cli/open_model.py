"""A registered model as the commands use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from dynamask_mlflow.evaluation.model_settings import ModelSettings
    from dynamask_mlflow.evaluation.sequences import Sequences
    from dynamask_mlflow.masks.config import ExplainConfig


@dataclass(frozen=True, eq=False)
class OpenModel:
    """A loaded model, the task, the settings, and how a shorter sequence is filled up for it."""

    network: torch.nn.Module
    task: str
    config: ExplainConfig
    reference: Any
    padding: Any


def open_model(uri: str, task: str | None, settings: dict[str, Any], sequences: Sequences) -> OpenModel:
    """Load the model behind `uri`, with the settings it was logged with unless given."""
    import mlflow

    from dynamask_mlflow.masks.config import ExplainConfig
    from dynamask_mlflow.tracking.mlflow_client import new_folder
    from dynamask_mlflow.tracking.open_network import open_network, reference_of, settings_of

    model = mlflow.pyfunc.load_model(uri, dst_path=new_folder())
    own = settings_of(model)
    kind = own.task if own else task
    if kind is None:
        raise ValueError(f"Expected --task classification or --task regression, since {uri} does not say which it is.")
    config = ExplainConfig.from_mapping({**(own.explain_defaults if own else {}), **settings})
    padding = own.prefix_padding if own else None
    network, config = open_network(model, sequences, kind, config)
    return OpenModel(network, kind, config, reference_of(model), padding)


def logged_settings(uri: str) -> ModelSettings | None:
    """What the model behind `uri` was logged with by this package; None of other models."""
    from dynamask_mlflow.evaluation.model_settings import SETTINGS_FILE, ModelSettings
    from dynamask_mlflow.tracking.mlflow_client import download

    try:
        file = download(f"{uri.rstrip('/')}/{SETTINGS_FILE}")
    except Exception:  # another flavor; what else may be wrong is said when the model is loaded
        return None
    return ModelSettings.load(file.parent)


def takes_observed(uri: str, x: NDArray[Any], observed: NDArray[Any]) -> bool:
    """Whether the model behind `uri` is given which cells were measured. Other errors are raised when it runs."""
    import mlflow

    from dynamask_mlflow.evaluation.sequences import as_sequences
    from dynamask_mlflow.masks.config import ExplainConfig
    from dynamask_mlflow.tracking.mlflow_client import new_folder
    from dynamask_mlflow.tracking.open_network import differentiable_network, settings_of

    try:
        model = mlflow.pyfunc.load_model(uri, dst_path=new_folder())
        own = settings_of(model)
        config = own.config() if own else ExplainConfig()
        return as_sequences(x, observed=observed).observed_is_input(differentiable_network(model), config)
    except Exception:
        return False
