"""Any model that MLflow loads as a network that the engine can ask: for evaluator, commands and audits alike."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from numpy.typing import NDArray

from dynamask_mlflow._logs import say
from dynamask_mlflow.evaluation.model_settings import ModelSettings
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.tracking.endpoint import Endpoint

if TYPE_CHECKING:
    import torch

Config = TypeVar("Config", bound=ExplainConfig)

CALL = ("inputs", "layout", "output_key", "shape")
"""Settings that say how a model is called. They belong to the model, whatever else is asked."""

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


def open_network(
    model: Any, sequences: Sequences, task: str, config: Config, *, quiet: bool = False
) -> tuple[torch.nn.Module, Config]:
    """The network inside the model, or the model itself as one without gradients, and how it is called.

    Args:
        model: as MLflow loads it or hands it to an evaluator.
        sequences: all that it will be asked about: they show its form, and the labels of a model that gives no more.
        config: `inputs`, `layout`, `output_key` and `shape` where the user says how it is called.
        quiet: leave out the line about a model without gradients.

    Raises:
        NoModelError: if there is nothing to ask.
        ModelError: if the model takes none of the forms that the data can have.
    """
    from dynamask_mlflow.tracking.forward_model import forward_network

    inner = as_given(model)
    try:
        network = differentiable_network(inner)
    except NoModelError:
        raise
    except NoGradientsError as reason:
        found = forward_network(inner, sequences, task, config)
        if not quiet:
            say(
                f"dynamask: {reason}. It is asked with {found.form} and explained by {config.forward_budget} forward "
                "passes an instance."
            )
        return found.network, config.with_options(output_key=None)
    if settings_of(inner) is None and config.layout == "auto":
        config = config.with_options(layout=layout_of(inner, sequences.x.shape[1:]))
    asked = _with_probabilities(network, sequences, task, config)
    return asked, config if asked is network else config.with_options(output_key=None)


def call_settings(model: Any) -> dict[str, Any]:
    """How a model of the dynamask flavor says it is called."""
    settings = settings_of(model)
    return {name: value for name, value in (settings.explain if settings else {}).items() if name in CALL}


def _with_probabilities(
    network: torch.nn.Module, sequences: Sequences, task: str, config: ExplainConfig
) -> torch.nn.Module:
    """The network, or one that gives probabilities where it answers with labels alone.

    It is tried in evaluation mode, so that nothing in it changes. Other faults are for the fit to name.
    """
    from dynamask_mlflow.masks.binding import with_classes
    from dynamask_mlflow.masks.black_box import frozen, resolve_device
    from dynamask_mlflow.masks.process_state import untouched_process

    if task != "classification":
        return network
    where = resolve_device(config.device)
    try:
        with untouched_process(network), frozen(network, where):
            bound = with_classes(sequences.bind(network, config), where)
    except Exception:
        return network
    return network if bound is None else bound


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
    what = "none" if raw is None else f"a {type(raw).__name__}"
    raise NoGradientsError(
        f"expected a torch network inside the model (loader {model.loader_module!r}), but found {what}"
    )


def layout_of(model: Any, shape: tuple[int, ...]) -> Literal["auto", "channels_first"]:
    """The layout of a logged signature: channels first where it has (d, T) and the data have (T, d)."""
    signature = getattr(getattr(model, "metadata", None), "signature", None)
    try:
        inner = tuple(int(size) for size in signature.inputs.inputs[0].shape[1:])  # type: ignore[union-attr]
    except (AttributeError, IndexError, TypeError):
        return "auto"
    return "channels_first" if inner == tuple(shape)[::-1] != tuple(shape) else "auto"


def settings_of(model: Any) -> ModelSettings | None:
    """The settings that a model of the dynamask flavor carries."""
    inner = _sequence_model(model)
    return None if inner is None else inner.settings


def reference_of(model: Any) -> NDArray[Any] | None:
    """The reference sequences that a model of the dynamask flavor was logged with."""
    inner = _sequence_model(model)
    return None if inner is None else inner.reference


def _sequence_model(model: Any) -> SequenceModel | None:
    """The model of the dynamask flavor, as it is or inside MLflow's wrapper."""
    inner = model if isinstance(model, SequenceModel) else getattr(getattr(model, "_model_impl", None), "model", None)
    return inner if isinstance(inner, SequenceModel) else None


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
