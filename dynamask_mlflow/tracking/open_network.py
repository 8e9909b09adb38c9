"""Any model that MLflow loads as a network that the engine can ask: for evaluator, commands and audits alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from dynamask_mlflow._logs import say
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.tracking.unwrap import (
    NoGradientsError,
    NoModelError,
    as_given,
    differentiable_network,
    layout_of,
    settings_of,
)

if TYPE_CHECKING:
    import torch

Config = TypeVar("Config", bound=ExplainConfig)

CALL = ("inputs", "layout", "output_key", "shape")
"""Settings that say how a model is called. They belong to the model, whatever else is asked."""


def open_network(
    model: Any, sequences: Sequences, task: str, config: Config, *, quiet: bool = False
) -> tuple[torch.nn.Module, Config]:
    """The network inside the model, or the model itself as one without gradients, and how it is called.

    Args:
        model: as MLflow loads it or hands it to an evaluator.
        sequences: all that it will be asked about: they tell its form, and the labels of a model that gives no more.
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
    from dynamask_mlflow.evaluation.sanity import bind
    from dynamask_mlflow.masks.binding import with_classes
    from dynamask_mlflow.masks.black_box import frozen, resolve_device
    from dynamask_mlflow.masks.process_state import untouched_process

    if task != "classification":
        return network
    where = resolve_device(config.device)
    try:
        with untouched_process(network), frozen(network, where):
            bound = with_classes(bind(network, sequences, config), where)
    except Exception:
        return network
    return network if bound is None else bound
