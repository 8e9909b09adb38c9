"""A loaded model: the differentiable network with its settings, and the verbs predict, explain, explain_change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.model_data import model_data
from dynamask_mlflow.evaluation.model_settings import OUTPUTS, ModelSettings

if TYPE_CHECKING:
    import torch

    from dynamask_mlflow.masks.change.result import Change
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
        """Predictions, see `predict`."""
        return self.predict(data)

    def predict(self, data: Any, output: str | None = None) -> NDArray[Any]:
        """Labels (N,), probabilities (N, C) or values, as `output` or else the settings say; (N, T, ...)
        where the network answers at every step.

        Args:
            data: (N, T, d), a table with one sequence a row, or, where the network takes more than x, a mapping or
                table of all its inputs by name.
        """
        from dynamask_mlflow.masks.predict import predict
        from dynamask_mlflow.metrics.shift import predicted_class

        kind = output or self.settings.output
        if kind not in OUTPUTS[self.settings.task]:
            raise ValueError(
                f"Expected output to be one of {OUTPUTS[self.settings.task]} for {self.settings.task}, "
                f"but got {kind!r}."
            )
        given, config = model_data(data), self.settings.config(device=self.device)
        result = predict(self.network, given.x, task=self.settings.task, side=given.side, config=config)
        if kind == "label":
            return predicted_class(result.astype(np.float64))
        if kind == "value" and result.ndim == 2 and result.shape[1] == 1:
            return result[:, 0]
        return result

    def explain(self, data: Any, **options: Any) -> Masks:
        """Masks of the instances, by the model's default settings unless `options` say otherwise."""
        from dynamask_mlflow.masks.explain import explain

        given = model_data(data)
        return explain(
            self.network,
            given.x,
            task=self.settings.task,
            lengths=given.lengths,
            observed=given.observed,
            extras=given.extras,
            reference=self.reference,
            config=self.settings.config(**{"device": self.device, **options}),
        )

    def explain_change(
        self, data: Any, *, since: Any, until: Any = None, padding: Any = None, **options: Any
    ) -> Change:
        """What changed between two times, see `dynamask_mlflow.explain_change`.

        Times are the model's own where they are numbers, else numbers of steps. `padding` is by default what the model
        was logged with. A model that takes more than x and lengths is refused.
        """
        from dynamask_mlflow.evaluation.changes import refuse_other_models, whole_steps
        from dynamask_mlflow.masks.change.explain_change import explain_change

        given, times = model_data(data), self.settings.times
        numeric = times is not None and all(isinstance(t, int | float) and not isinstance(t, bool) for t in times)
        if not numeric:
            since, until = whole_steps(since), whole_steps(until)
        config = self.settings.config(**{"device": self.device, **options})
        refuse_other_models(self.network, given.side, config)
        return explain_change(
            self.network,
            given.x,
            since=since,
            until=until,
            times=times if numeric else None,
            lengths=given.lengths,
            padding=self.settings.prefix_padding if padding is None else padding,
            task=self.settings.task,
            config=config,
        )
