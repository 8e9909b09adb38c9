"""The example with which a network is exported and its signature made: all its inputs, without a patient's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.model_data import ModelData, model_data
from dynamask_mlflow.masks.config import ExplainConfig

if TYPE_CHECKING:
    import torch
    from mlflow.types import Schema


@dataclass(frozen=True, eq=False)
class Example:
    """Two instances or more: torch.export burns a batch of one into the graph."""

    data: ModelData

    @classmethod
    def of(cls, given: Any) -> Example:
        """From an array (B, T, d), or a mapping of arrays by input: "x", "lengths", "observed", ..."""
        data = model_data(given)
        if data.x.ndim != 3 or 0 in data.x.shape:
            raise ValueError(f"Expected input_example of shape (B, T, d), none of them 0, but got {data.x.shape}.")
        return cls(_with(data, lambda values: values if len(values) > 1 else np.repeat(values, 2, axis=0)))

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.x.shape[1], self.data.x.shape[2]

    @property
    def further(self) -> dict[str, NDArray[Any]]:
        """The inputs beside x, by name."""
        held = {"lengths": self.data.lengths, "observed": self.data.observed, **self.data.extras}
        return {name: values for name, values in held.items() if values is not None}

    def blank(self) -> Example:
        """Without values: a traced graph and its example would carry a patient's. Lengths and codes stay in range."""

        def without(values: NDArray[Any]) -> NDArray[Any]:
            return np.zeros_like(values)

        data = _with(self.data, without)
        lengths = None if self.data.lengths is None else np.full_like(self.data.lengths, self.shape[0])
        return Example(ModelData(data.x, lengths, data.observed, data.extras))

    def inputs_schema(self) -> Schema:
        """One tensor without a name for x alone, else one for each input by name."""
        from mlflow.types import Schema, TensorSpec

        x = np.dtype(np.float32)
        if not self.further:
            return Schema([TensorSpec(x, (-1, *self.shape))])
        specs: list[Any] = [TensorSpec(x, (-1, *self.shape), "x")]
        specs += [TensorSpec(values.dtype, (-1, *values.shape[1:]), name) for name, values in self.further.items()]
        return Schema(specs)

    def arguments(self, network: torch.nn.Module, config: ExplainConfig) -> dict[str, NDArray[Any]] | None:
        """What the network itself is called with, argument by argument; None where it takes x as it is."""
        import torch

        from dynamask_mlflow.masks.adapted_model import AdaptedModel
        from dynamask_mlflow.masks.binding import Binding

        binding = Binding.of(network, torch.as_tensor(self.data.x), None, self.data.side, config)
        if not binding.adapted:
            return None
        rows = torch.arange(len(self.data))
        model = binding.model_of(rows, torch.device("cpu"))
        assert isinstance(model, AdaptedModel)
        found = model.arguments(binding.inputs_of(rows, torch.device("cpu")))
        return {name: _as_array(values) for name, values in found.items()}


def _as_array(values: torch.Tensor) -> Any:
    """numpy, or the tensor itself where numpy has no such numbers (bfloat16)."""
    import torch

    return values if values.dtype == torch.bfloat16 else values.detach().numpy()


def _with(data: ModelData, change: Any) -> ModelData:
    def some(values: NDArray[Any] | None) -> Any:
        return None if values is None else change(values)

    extras: Mapping[str, NDArray[Any]] = {name: change(values) for name, values in data.extras.items()}
    return ModelData(change(data.x), some(data.lengths), some(data.observed), extras)
