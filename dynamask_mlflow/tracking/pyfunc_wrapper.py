"""The model as MLflow's python_function: predictions, or masks when `params` ask for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.model_data import ModelData, model_data
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.masks.result import DIRECTIONS, Masks

if TYPE_CHECKING:
    import torch
    from mlflow.types import ParamSchema

_TYPED = {
    "method": "string",
    "target": "string",
    "area": "double",
    "deletion": "boolean",
    "steps": "long",
    "seed": "long",
}


def inference_params() -> ParamSchema:
    """What `predict(x, params=...)` understands, here and over REST; None means: as the model was logged."""
    from mlflow.types import DataType, ParamSchema, ParamSpec

    specs = [ParamSpec("explain", DataType.boolean, False), ParamSpec("output", DataType.string, None)]
    specs += [ParamSpec(name, DataType[kind], None) for name, kind in _TYPED.items()]
    specs.append(ParamSpec("settings", DataType.string, None))  # any other key of ExplainConfig, as JSON
    return ParamSchema(specs)


class PyfuncWrapper:
    """Offers `predict` to MLflow and `get_raw_model` to whoever needs gradients."""

    def __init__(self, model: SequenceModel) -> None:
        self.model = model

    def get_raw_model(self) -> torch.nn.Module:
        return self.model.network

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> NDArray[Any] | pd.DataFrame:
        """Predictions, or with `explain` a row each.

        A row has the prediction, probability, target, direction, answer and reference answer, area, and as nested lists
        (T x d) the mask's coefficients, its whole cells and the signed attributions; with the model's channel names and
        times.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        given_data = model_data(data)
        output = given.pop("output", None)
        if not given.pop("explain", False):
            return self.model.predict(given_data, output)
        masks = self.model.explain(given_data, **_options(given))
        return pd.DataFrame(self._answer(given_data, output, masks))

    def _answer(self, x: ModelData, output: str | None, masks: Masks) -> dict[str, Any]:
        settings = self.model.settings
        columns: dict[str, Any] = {"prediction": self.model.predict(x, output).tolist()}
        if settings.task == "classification":
            columns["probability"] = self.model.predict(x, "probability").astype(np.float64).round(6).tolist()
        columns["target"] = [masks.target] * len(x)
        columns["direction"] = [DIRECTIONS[int(way)] for way in masks.direction]
        for name in ("answer", "reference_answer"):
            if name in masks.diagnostics:
                columns[name] = masks.diagnostics[name].astype(np.float64).tolist()
        columns["area"] = masks.area.tolist()
        columns["mask"] = masks.masks.astype(np.float64).round(6).tolist()
        columns["salient"] = masks.binary.tolist()
        if masks.attributions is not None:
            columns["attributions"] = masks.attributions.astype(np.float64).round(6).tolist()
        if masks.static_attributions is not None:
            columns["static_attributions"] = masks.static_attributions.astype(np.float64).round(6).tolist()
            columns["static_names"] = [list(masks.config["static"])] * len(x)
        for name, labels in (("channel_names", settings.channel_names), ("times", settings.times)):
            if labels is not None:
                columns[name] = [list(labels)] * len(x)
        return columns


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(given)
    extra = options.pop("settings", None)
    if extra is None:
        return options
    try:
        parsed = json.loads(extra)
    except ValueError as error:
        raise ValueError(f"Expected settings to be a JSON object, but got {extra!r}: {error}.") from error
    if not isinstance(parsed, dict):
        raise ValueError(f"Expected settings to be a JSON object, but got {extra!r}.")
    return parsed | options
