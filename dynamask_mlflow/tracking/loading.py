"""Load a logged model: as a `SequenceModel`, or as MLflow's python_function, which predicts and explains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.model_data import ModelData, model_data
from dynamask_mlflow.evaluation.model_settings import ModelSettings, load_reference
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.masks.result import DIRECTIONS, Masks
from dynamask_mlflow.tracking.mlflow_internals import refuse_unknown_params

if TYPE_CHECKING:
    import torch
    from mlflow.types import ParamSchema

FLAVOR_NAME = "dynamask"
_TYPED = {
    "method": "string",
    "target": "string",
    "area": "double",
    "deletion": "boolean",
    "steps": "long",
    "seed": "long",
}


def load_model(
    model_uri: str, dst_path: str | None = None, device: str = "auto", untrusted: bool = False
) -> SequenceModel:
    """Load a model of this flavor from any URI MLflow knows; `untrusted` refuses what could run code.

    Example:
        >>> load_model("models:/icu-mortality@champion").settings.task
        'classification'
    """
    from dynamask_mlflow.tracking.mlflow_client import download

    local = str(download(str(model_uri), dst_path=dst_path))
    if untrusted:
        from dynamask_mlflow.tracking.untrusted import UntrustedModelError, load_folder

        model = load_folder(local, device)
        if not isinstance(model, SequenceModel):
            raise UntrustedModelError("Expected a model of the dynamask flavor, but it has none.")
        return model
    return _load(local, device)


def _load(path: str, device: str) -> SequenceModel:
    import mlflow.pytorch
    from mlflow.models import Model

    settings = ModelSettings.load(path)
    network = mlflow.pytorch.load_model(path, weights_only=False)
    return SequenceModel(network, settings, device, Model.load(path).model_id, load_reference(path))


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> PyfuncWrapper:
    """Called by `mlflow.pyfunc.load_model` with the model's root."""
    from mlflow.environment_variables import MLFLOW_DEFAULT_PREDICTION_DEVICE

    refuse_unknown_params(frozenset(spec.name for spec in inference_params().params))
    preferred = MLFLOW_DEFAULT_PREDICTION_DEVICE.get()  # type: ignore[no-untyped-call]
    device = (model_config or {}).get("device") or preferred or "auto"
    return PyfuncWrapper(_load(path, device))


def inference_params() -> ParamSchema:
    """What `predict(x, params=...)` understands, here and over REST; None means: as the model was logged."""
    from mlflow.types import DataType, ParamSchema, ParamSpec

    specs = [ParamSpec("explain", DataType.boolean, False), ParamSpec("output", DataType.string, None)]
    specs += [ParamSpec(name, DataType[kind], None) for name, kind in _TYPED.items()]
    specs.append(ParamSpec("explain_change", DataType.boolean, False))
    specs += [ParamSpec(name, DataType.double, None) for name in ("since", "until")]
    specs.append(ParamSpec("padding", DataType.string, None))
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
        times. With `explain_change` a row says what changed from `since` to `until`.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        given_data = model_data(data)
        output = given.pop("output", None)
        change, explain = given.pop("explain_change", False), given.pop("explain", False)
        asked: dict[str, Any] = {name: given.pop(name) for name in ("since", "until", "padding") if name in given}
        if change:
            return pd.DataFrame(self._changes(given_data, output, asked, _options(given)))
        if asked:
            raise ValueError(f"Expected explain_change with {', '.join(asked)}, but it is not asked for.")
        if not explain:
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
        return columns | self._names(len(x))

    def _changes(
        self, x: ModelData, output: str | None, asked: dict[str, Any], options: dict[str, Any]
    ) -> dict[str, Any]:
        if "since" not in asked:
            raise ValueError("Expected `since`, the earlier time, with explain_change, but got none.")
        if "padding" in asked:
            asked["padding"] = _number(asked["padding"])
        change = self.model.explain_change(x, **asked, **options)
        columns: dict[str, Any] = {"prediction": self.model.predict(x, output).tolist()}
        if self.model.settings.task == "classification":
            columns["probability"] = change.outputs_after.round(6).tolist()
            columns["probability_before"] = change.outputs_before.round(6).tolist()
        columns["target"] = [change.target] * len(x)
        columns["direction"] = [DIRECTIONS[int(way)] for way in change.direction]
        for name in ("before", "after", "change", "elapsed", "since", "until"):
            columns[name] = getattr(change, name).tolist()
        columns["mask"] = change.masks.astype(np.float64).round(6).tolist()
        columns["salient"] = change.binary.tolist()
        columns["attributions"] = change.contributions.astype(np.float64).round(6).tolist()
        return columns | self._names(len(x))

    def _names(self, number: int) -> dict[str, Any]:
        settings = self.model.settings
        known = {"channel_names": settings.channel_names, "times": settings.times}
        return {name: [list(labels)] * number for name, labels in known.items() if labels is not None}


def _number(text: str) -> str | float:
    """A padding value, or a word such as "carry"."""
    try:
        return float(text)
    except ValueError:
        return text


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
