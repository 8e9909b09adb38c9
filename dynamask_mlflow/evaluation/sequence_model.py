"""A loaded model: the differentiable network with its settings, and the two verbs predict and explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.evaluation.model_settings import OUTPUTS, ModelSettings

if TYPE_CHECKING:
    import torch

    from dynamask_mlflow.masks.result import Masks


@dataclass(frozen=True, eq=False)
class SequenceModel:
    """What `dynamask_mlflow.load_model` returns.

    Attributes:
        network: the torch module, differentiable by its inputs.
        settings: task, names, statistics and default explanation settings.
        device: where to compute: "auto" or a torch device.
        model_id: of the logged model, if it is known.
        reference: (M, T, d) sequences that answers are explained against, if the model was logged with any.

    `mlflow.models.evaluate` takes it as it is: called like a function it predicts.
    """

    network: torch.nn.Module
    settings: ModelSettings
    device: str = "auto"
    model_id: str | None = None
    reference: NDArray[Any] | None = None

    def __call__(self, data: Any) -> NDArray[Any]:
        """Predictions for an array (N, T, d), or for a table with one sequence a row."""
        return self.predict(as_array(data))

    def predict(self, x: ArrayLike, output: str | None = None) -> NDArray[Any]:
        """Labels (N,), probabilities (N, C) or values, as `output` or else the settings say; (N, T, ...)
        where the network answers at every step.
        """
        from dynamask_mlflow.masks.black_box import predict
        from dynamask_mlflow.metrics.shift import predicted_class

        kind = output or self.settings.output
        if kind not in OUTPUTS[self.settings.task]:
            raise ValueError(
                f"Expected output to be one of {OUTPUTS[self.settings.task]} for {self.settings.task}, "
                f"but got {kind!r}."
            )
        reading = self.settings.config().output
        result = predict(self.network, np.array(x), task=self.settings.task, output=reading, device=self.device)
        if kind == "label":
            return predicted_class(result.astype(np.float64))
        if kind == "value" and result.ndim == 2 and result.shape[1] == 1:
            return result[:, 0]
        return result

    def explain(self, x: ArrayLike, **options: Any) -> Masks:
        """Masks of the instances, by the model's default settings unless `options` say otherwise."""
        from dynamask_mlflow.masks.explain import explain

        config = self.settings.config(**{"device": self.device, **options})
        return explain(self.network, np.array(x), task=self.settings.task, reference=self.reference, config=config)


def as_array(data: Any) -> NDArray[np.float32]:
    """(N, T, d) float32 out of an array or a table with one sequence a row."""
    columns = getattr(data, "columns", None)
    if columns is not None:
        if len(columns) != 1:
            raise ValueError(f"Expected a table with one column of sequences, but got {len(columns)} columns.")
        data = np.stack([np.asarray(row) for row in data.iloc[:, 0]])
    return np.asarray(data, dtype=np.float32)
