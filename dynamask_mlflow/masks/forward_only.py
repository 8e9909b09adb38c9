"""Models that answer without gradients: functions of numpy arrays, labels, windows in one flat row."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.masks.model_output import read_output

_logger = logging.getLogger(__name__)

# What a label counts as a probability. Labels jump, so any number would do that a logarithm can take.
_SURE = 0.99
AT_ONCE = 256


class ForwardOnly(nn.Module):
    """A function of numpy arrays as a module on tensors, without gradients.

    Args:
        function: (B, T, d) float32 to an array of B rows; with several arguments it is called by their names.
        takes_tensors: the function takes a tensor, and only its answer is none.
        classes: labels that the function answers with; its answers then become probabilities.
        arguments: what the function takes, in the order of its arguments.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        takes_tensors: bool = False,
        classes: Sequence[Any] | None = None,
        arguments: Sequence[str] = ("x",),
    ) -> None:
        super().__init__()
        self.function, self.takes_tensors = function, takes_tensors
        self.classes = None if classes is None else np.asarray(classes)
        self.arguments = tuple(arguments)

    def answers(self, *inputs: Tensor, **named: Tensor) -> NDArray[Any]:
        """What the function says, as it says it."""
        given = dict(zip(self.arguments, inputs, strict=False)) | named
        values = {name: self._given(value) for name, value in given.items()}
        with torch.no_grad():
            found = self.function(**values) if len(self.arguments) > 1 else self.function(*values.values())
        return found.detach().cpu().numpy() if isinstance(found, Tensor) else np.asarray(found)

    def _given(self, x: Tensor) -> Any:
        return x.detach().clone() if self.takes_tensors else x.detach().cpu().numpy().copy()

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        found = self.answers(*inputs, **named)
        values = found if self.classes is None else _sure_of(found, self.classes)
        device = next(iter((*inputs, *named.values()))).device
        return torch.as_tensor(np.array(values, dtype=np.float32), device=device)

    def with_classes(self, classes: Sequence[Any]) -> ForwardOnly:
        return ForwardOnly(self.function, takes_tensors=self.takes_tensors, classes=classes, arguments=self.arguments)


class Labelled(nn.Module):
    """A network that answers with labels, as one that gives probabilities; it takes what the network takes.

    Args:
        output_key: of the labels in an output of several parts.
    """

    def __init__(self, network: Callable[..., Any], classes: Sequence[Any], output_key: str | int | None) -> None:
        super().__init__()
        self.network, self.output_key = network, output_key
        self.classes = np.asarray(classes)

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        with torch.no_grad():
            labels = read_output(self.network(*inputs, **named), self.output_key)
        return torch.as_tensor(_sure_of(labels.cpu().numpy(), self.classes), device=labels.device)


class Flattened(nn.Module):
    """A network on windows in one row, (B, T d), as one on (B, T, d)."""

    def __init__(self, network: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Any:
        return self.network(x.flatten(1))


def unflattened(x: Any, shape: Sequence[int] | None) -> Any:
    """(N, T, d) out of windows in one row (N, T d), where `shape` = (T, d) says how to read them."""
    if shape is None or x.ndim == 3:
        return x
    if x.ndim != 2 or x.shape[1] != shape[0] * shape[1]:
        raise ValueError(
            f"Expected x of shape (N, {shape[0]}, {shape[1]}) or (N, {shape[0] * shape[1]}), as shape={tuple(shape)} "
            f"says, but got {tuple(x.shape)}."
        )
    return x.reshape(len(x), *shape)


def callable_of(model: Any, task: str) -> Any:
    """The model, or what is asked of one that is an object with methods.

    That is the torch module inside (`get_raw_model`, of models that MLflow loads), else `predict_proba` or
    `decision_function` of what is inside or of itself, else its `predict`.

    >>> class Mean:
    ...     def predict(self, x):
    ...         return x.mean((1, 2))
    >>> callable_of(Mean(), "regression").__name__
    'predict'
    """
    if callable(model):
        return model
    try:
        inside = model.get_raw_model()
    except Exception:  # no model of MLflow, or of a flavor that does not show it
        inside = None
    if isinstance(inside, nn.Module):
        return inside
    telling = ("predict_proba", "decision_function") if task == "classification" else ()
    methods = [getattr(owner, name, None) for owner in (inside, model) for name in telling]
    return next((method for method in (*methods, getattr(model, "predict", None)) if callable(method)), model)


def as_torch_model(model: Any, inputs: Tensor, task: str, shape: Sequence[int] | None = None) -> Any:
    """The model as a callable on tensors: functions of numpy arrays are wrapped, modules are not even asked.

    A model that answers in no known way is returned as it is: opening it says what is wrong.

    Args:
        inputs: (N, T, d), asked as a whole only where labels have to be collected.
        shape: (T, d) of a model that takes windows in one row.
    """
    if isinstance(model, ForwardOnly) or not callable(model):
        return model
    several = getattr(model, "arguments", ())
    if len(several) > 1:
        return ForwardOnly(model, arguments=several)
    if shape is not None:
        if tuple(shape) != tuple(inputs.shape[1:]):
            raise ValueError(f"Expected sequences of shape (T, d) = {tuple(shape)}, but got {tuple(inputs.shape[1:])}.")
        model = Flattened(model) if isinstance(model, nn.Module) else _on_rows(model)
    if isinstance(model, nn.Module):
        return model
    wrapped = _wrapped(model, inputs[:2])
    if not isinstance(wrapped, ForwardOnly) or task != "classification":
        return wrapped
    return labelled(wrapped, inputs) if are_labels(wrapped.answers(inputs[:2])) else wrapped


def labelled(model: ForwardOnly, inputs: Tensor) -> ForwardOnly:
    """A function that answers with labels, as one that gives probabilities, of the classes that the inputs have."""
    found = [model.answers(inputs[start : start + AT_ONCE]) for start in range(0, len(inputs), AT_ONCE)]
    return model.with_classes(classes_of(np.concatenate(found)))


def classes_of(labels: NDArray[Any]) -> list[Any]:
    """All labels there are, 0 and 1 for whole numbers in any case, so that a risk is the probability of 1."""
    _logger.warning(
        "dynamask: the model answers with labels alone, so that a mask sees a cell only where it turns the label. "
        "Explain its probabilities or logits instead (predict_proba)."
    )
    found = set(np.unique(labels).tolist())
    if all(isinstance(label, int | float | bool) and label in (0, 1) for label in found):
        found |= {type(next(iter(found)))(0), type(next(iter(found)))(1)}
    ordered = sorted(found)
    return ordered if len(ordered) > 1 else [*ordered, _OTHER]


def _on_rows(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def on_rows(x: Any) -> Any:
        return function(x.reshape(len(x), -1))

    return on_rows


def _wrapped(function: Callable[[Any], Any], probe: Tensor) -> Any:
    """The function itself where it computes with tensors, else as a `ForwardOnly`."""
    takes_tensors = False
    try:
        found = function(probe.detach().clone().requires_grad_())
        if isinstance(found, Tensor) or not _is_array(found):
            return function
        takes_tensors = True
    except Exception:
        pass
    try:
        on_arrays = function(probe.detach().cpu().numpy().copy())
    except Exception:
        return ForwardOnly(function, takes_tensors=True) if takes_tensors else _perhaps_on_rows(function, probe)
    return ForwardOnly(function) if _is_array(on_arrays) else function


def _perhaps_on_rows(function: Callable[[Any], Any], probe: Tensor) -> Any:
    """An estimator that was fitted to windows in one row, as a `ForwardOnly`; else the function itself."""
    on_rows = _on_rows(function)
    try:
        found = on_rows(probe.detach().cpu().numpy().copy())
    except Exception:
        return function
    if not _is_array(found) or len(found) != len(probe):
        return function
    steps, channels = probe.shape[1:]
    _logger.warning(
        "dynamask: the model takes no windows (B, %d, %d) but rows of %d numbers; they are given time by time, as "
        "shape=(%d, %d) says it.",
        *(steps, channels, steps * channels, steps, channels),
    )
    return ForwardOnly(on_rows)


def _is_array(found: Any) -> bool:
    """Whether an answer can be read as one array of numbers or labels; tuples and mappings of tensors cannot."""
    if found is None or isinstance(found, Tensor | dict | str | bytes):
        return False
    try:
        return np.asarray(found).ndim >= 1 and np.asarray(found).dtype.kind in "fiubUSO"
    except Exception:
        return False


def are_labels(found: NDArray[Any]) -> bool:
    """Whether answers are words or whole numbers, one each, and not probabilities, logits or values."""
    if found.dtype.kind != "f":
        return True
    return found.ndim == 1 and bool(np.isfinite(found).all()) and bool((found == np.round(found)).all())


_OTHER = "any other label"


def _sure_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float32]:
    """(..., C): nearly 1 at the label, the rest shared; a label never seen before is none of the classes."""
    hits = labels.reshape(labels.shape[0], -1)[..., None] == classes
    rest = (1 - _SURE) / (len(classes) - 1)
    probabilities = np.where(hits, _SURE, rest)
    probabilities = np.where(hits.any(-1, keepdims=True), probabilities, 1 / len(classes))
    squeezed = probabilities[:, 0] if probabilities.shape[1] == 1 else probabilities
    return squeezed.astype(np.float32)
