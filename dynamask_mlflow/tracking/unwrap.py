"""The differentiable network inside whatever `mlflow.models.evaluate` hands to an evaluator."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dynamask_mlflow.evaluation.model_settings import ModelSettings
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.config import ExplainConfig

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


def as_given(model: Any) -> Any:
    """A network or a loaded model of our flavor as it was handed to `evaluate`, which wraps whatever can be called."""
    import torch

    predict = getattr(type(getattr(model, "python_model", None)), "predict", None)
    waiting, seen = [predict], set()
    while waiting:
        function = waiting.pop()
        if isinstance(function, torch.nn.Module | SequenceModel):
            return function
        if id(function) in seen or not isinstance(function, FunctionType):
            continue
        seen.add(id(function))
        waiting += [cell.cell_contents for cell in function.__closure__ or ()]
    return model


def differentiable_network(model: Any) -> torch.nn.Module:
    """The torch module of a model as MLflow's evaluators get it, or a `NoGradientsError`."""
    import torch
    from mlflow.pyfunc import PyFuncModel, _ServedPyFuncModel

    if model is None:
        raise NoGradientsError("no model was given, only predictions")
    if isinstance(model, SequenceModel):
        return model.network
    if isinstance(model, torch.nn.Module):
        return model
    if isinstance(model, _ServedPyFuncModel):
        raise NoGradientsError(
            "the model runs in a server of its own (env_manager), which answers with predictions only; "
            "use env_manager='local'"
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


def require_gradients(network: torch.nn.Module, sequences: Sequences, config: ExplainConfig) -> None:
    """Raise `NoGradientsError` if the network cuts its input off; other faults are for the fit to name.

    The network is tried in evaluation mode, so that nothing in it changes.
    """
    import torch

    from dynamask_mlflow.evaluation.sanity import bind
    from dynamask_mlflow.masks.black_box import frozen, resolve_device
    from dynamask_mlflow.masks.model_output import read_output

    where, rows = resolve_device(config.device), torch.arange(min(2, len(sequences)))
    binding = bind(network, sequences, config)
    try:
        with frozen(network, where):
            y = read_output(binding.model_of(rows, where)(binding.inputs_of(rows, where).requires_grad_()))
    except Exception:
        return
    if not y.requires_grad:
        raise NoGradientsError("the network's output carries no gradient (labels, argmax, .detach() or no_grad inside)")


def layout_of(model: Any, shape: tuple[int, ...]) -> str:
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
