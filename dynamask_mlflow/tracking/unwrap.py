"""The differentiable network inside whatever `mlflow.models.evaluate` hands to an evaluator."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from dynamask_mlflow.evaluation.model_settings import ModelSettings
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.tracking.endpoint import Endpoint

if TYPE_CHECKING:
    import torch

TASK_OF = {
    "classifier": "classification",
    "sequence-classifier": "classification",
    "regressor": "regression",
    "sequence-regressor": "regression",
}


class NoGradientsError(Exception):
    """The model gives predictions only; the message says why."""


class NoModelError(NoGradientsError):
    """There is no model to ask at all."""


def as_given(model: Any) -> Any:
    """A network or a loaded model of our flavor as it was handed to `evaluate`, which wraps whatever can be called.

    Only MLflow's own wrappers are opened: a user's function that calls a network is another model than that network.
    """
    import torch

    predict = getattr(type(getattr(model, "python_model", None)), "predict", None)
    waiting, seen = [predict], set()
    while waiting:
        function = waiting.pop()
        if isinstance(function, torch.nn.Module | SequenceModel | Endpoint):
            return function
        if id(function) in seen or not isinstance(function, FunctionType):
            continue
        if function.__module__.partition(".")[0] != "mlflow":
            continue
        seen.add(id(function))
        waiting += [cell.cell_contents for cell in function.__closure__ or ()]
    return model


def differentiable_network(model: Any) -> torch.nn.Module:
    """The torch module of a model as MLflow's evaluators get it, or a `NoGradientsError`."""
    import torch
    from mlflow.pyfunc import PyFuncModel, _ServedPyFuncModel

    if model is None:
        raise NoModelError("no model was given, only predictions, so nothing can be asked about perturbed sequences")
    if isinstance(model, SequenceModel):
        return model.network
    if isinstance(model, torch.nn.Module):
        return model
    if isinstance(model, _ServedPyFuncModel):
        raise NoGradientsError(
            "the model runs in a server of its own (env_manager), which answers with predictions only; "
            "env_manager='local' would give its gradients"
        )
    if not isinstance(model, PyFuncModel):
        raise NoGradientsError("a plain function or an endpoint answers with predictions only")
    try:
        raw = model.get_raw_model()  # type: ignore[no-untyped-call]
    except NotImplementedError:
        offered = getattr(getattr(model._model_impl, "python_model", None), "get_raw_model", None)
        raw = offered() if callable(offered) else None
    if isinstance(raw, torch.nn.Module):
        return raw
    what = "nothing" if raw is None else f"a {type(raw).__name__}"
    raise NoGradientsError(
        f"expected a torch network inside the model (loader {model.loader_module!r}), but found {what}"
    )


def layout_of(model: Any, shape: tuple[int, ...]) -> Literal["auto", "channels_first"]:
    """The layout that a logged signature tells: channels first where it has (d, T) and the data have (T, d)."""
    signature = getattr(getattr(model, "metadata", None), "signature", None)
    try:
        inner = tuple(int(size) for size in signature.inputs.inputs[0].shape[1:])  # type: ignore[union-attr]
    except (AttributeError, IndexError, TypeError):
        return "auto"
    return "channels_first" if inner == tuple(shape)[::-1] != tuple(shape) else "auto"


def settings_of(model: Any) -> ModelSettings | None:
    """The settings that a model of the dynamask flavor carries."""
    inner = model if isinstance(model, SequenceModel) else getattr(getattr(model, "_model_impl", None), "model", None)
    settings = getattr(inner, "settings", None)
    return settings if isinstance(settings, ModelSettings) else None


def reference_of(model: Any) -> NDArray[Any] | None:
    """The reference sequences that a model of the dynamask flavor was logged with."""
    inner = model if isinstance(model, SequenceModel) else getattr(getattr(model, "_model_impl", None), "model", None)
    return inner.reference if isinstance(inner, SequenceModel) else None


def task_of(model_type: str | None, settings: ModelSettings | None) -> str:
    """The task, by the model's own settings or by the model type; they may not disagree."""
    asked = TASK_OF.get(model_type or "")
    if settings is None:
        if asked is None:
            raise ValueError(f"Expected model_type to be one of {tuple(TASK_OF)}, but got {model_type!r}.")
        return asked
    if asked is not None and asked != settings.task:
        raise ValueError(f"Expected a model_type for {settings.task}, as the model was logged, but got {model_type!r}.")
    return settings.task


def model_id_of(model: Any, given: str | None) -> str | None:
    """MLflow passes no model id for aliases, versions and runs, though the model knows it."""
    found = given or getattr(model, "model_id", None) or getattr(getattr(model, "metadata", None), "model_id", None)
    return str(found) if found else None
