"""Models that only predict (scikit-learn, trees, ONNX, Keras, any pyfunc, an endpoint) as functions of (B, T, d)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._logs import say
from dynamask_mlflow._secrets import first_line
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.forward_only import ForwardOnly, Labelled
from dynamask_mlflow.tracking.forward_answers import (
    UnreadableOutputError,
    as_array,
    decisions_of,
    inner_model,
    probabilities_of,
)
from dynamask_mlflow.tracking.table_columns import TableColumns

Form = Callable[[NDArray[np.float32]], Any]
"""Sequences (B, T, d) as a model takes them."""

_TRIED = 32  # sequences that show whether probabilities are more than labels


class Predictor:
    """A model as a function of arrays (B, T, d). How it takes them is found out at the first call.

    The signature decides where there is one: (-1, T, d), (-1, d, T), (-1, T d), several tensors by name, or T d
    columns, by their names ("HR_0", "t3_HR") or else time by time, with further columns for further inputs. Without a
    signature each form of one array is tried in turn.

    Args:
        model: with `predict`, as MLflow's evaluators get it; or a function.
        task: for "classification", `predict_proba` or `decision_function` of the model inside is used where there is
            one.
        channel_names: of the data, to read the names of columns.
        shape: (T, d) of the sequences, for models that take a table.
        flat: the model takes windows in one row, whatever it says.
        channels_first: x comes as (B, d, T).
        output_key: of the output to read, where there are several.
    """

    def __init__(
        self,
        model: Any,
        task: str,
        channel_names: Sequence[str] = (),
        *,
        shape: tuple[int, int] | None = None,
        flat: bool = False,
        channels_first: bool = False,
        output_key: str | int | None = None,
    ) -> None:
        self._model = model
        self.inner = inner_model(model)
        self._ask = (probabilities_of(self.inner) if task == "classification" else None) or _predict(model)
        self._schema = _input_schema(model)
        self._flat, self._channels_first, self._key = flat, channels_first, output_key
        self._form: Form | None = None
        self.form = "arrays by name"
        specs = None if self._schema is None else self._schema.inputs
        self._specs = specs if specs and self._schema.is_tensor_spec() else None
        self._columns: TableColumns | None = None
        if specs and self._specs is None and shape is not None:
            self._columns = TableColumns.of(specs, channel_names, shape)
        self.arguments = self._arguments()

    def _arguments(self) -> tuple[str, ...]:
        """What it takes by name: "x" alone, or all its inputs."""
        if self._specs is not None and len(self._specs) > 1:
            return tuple(str(spec.name) for spec in self._specs)
        if self._columns is not None:
            return ("x", *self._columns.others)
        stated = getattr(self._model, "arguments", ())
        session = getattr(self.inner, "get_inputs", None)  # of onnxruntime
        names = [str(each.name) for each in session()] if callable(session) else list(stated)
        return tuple(names) if len(names) > 1 and self._schema is None else ("x",)

    def __call__(self, x: NDArray[np.float32] | None = None, **named: NDArray[Any]) -> NDArray[Any]:
        """Probabilities, margins or values of B sequences; several inputs are given by name."""
        return self._answered(self._ask, x, named, self._key)

    def labels(self, x: NDArray[np.float32] | None = None, **named: NDArray[Any]) -> NDArray[Any]:
        """What `predict` of the model says, which is labels for most classifiers."""
        return self._answered(_predict(self._model), x, named)

    def use_margins(self) -> bool:
        """Ask for decisions instead of probabilities; False where the model has none."""
        found = decisions_of(self.inner)
        self._ask = found or self._ask
        return found is not None

    def _answered(
        self,
        ask: Callable[[Any], Any],
        x: NDArray[np.float32] | None,
        named: Mapping[str, NDArray[Any]],
        key: str | int | None = None,
    ) -> NDArray[Any]:
        if len(self.arguments) > 1:
            given = dict(named) if x is None else {self.arguments[0]: x, **named}
            count = len(next(iter(given.values())))
            return as_array(ask(self._by_name(given)), count, key)
        values = next(iter(named.values())) if x is None else x
        if self._form is None:
            return self._first(ask, values, key)
        return as_array(ask(self._form(values)), len(values), key)

    def _by_name(self, given: Mapping[str, NDArray[Any]]) -> Any:
        if self._columns is not None:
            return self._columns.table(given, channels_first=self._channels_first)
        if self._specs is None:
            return dict(given)
        specs = {str(spec.name): spec for spec in self._specs}
        return {name: _shaped(values, specs[name]) for name, values in given.items()}

    def _first(self, ask: Callable[[Any], Any], x: NDArray[np.float32], key: str | int | None) -> NDArray[Any]:
        failures: list[str] = []
        unreadable: UnreadableOutputError | None = None
        for words, form in self._forms(x.shape[1], x.shape[2]):
            try:
                found = as_array(ask(form(x)), len(x), key)
            except UnreadableOutputError as error:
                unreadable = unreadable or error
                continue
            except Exception as error:
                failures.append(f"{words}: {first_line(error)}")
                continue
            self._form, self.form = form, words
            return found
        if unreadable is not None:  # it takes the sequences: what it was given is no part of the fault
            raise ModelError(str(unreadable)) from unreadable
        tried = f"it failed as {'; as '.join(failures)}" if failures else f"its signature takes {self._described()}"
        raise ModelError(
            f"Expected a model that predicts from {len(x)} sequences of shape (T, d) = {x.shape[1:]}, but {tried}. Log "
            "it with a signature of one of the forms (-1, T, d), (-1, d, T), (-1, T d) or T d columns, or say "
            "shape=(T, d) if it takes windows in one row. A model of other tables is explained through a function of x "
            "that builds them."
        )

    def _described(self) -> str:
        inputs = [] if self._schema is None else self._schema.inputs
        if self._specs is not None:
            return ", ".join(f"{spec.name or 'a tensor'} of shape {tuple(spec.shape)}" for spec in inputs)
        names = [str(spec.name) for spec in inputs]
        return f"{len(names)} columns: {', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"

    def _forms(self, steps: int, channels: int) -> Iterator[tuple[str, Form]]:
        import pandas as pd

        def rows(x: NDArray[np.float32]) -> NDArray[np.float32]:
            return x.reshape(len(x), -1)

        def one_column(x: NDArray[np.float32]) -> Any:
            return pd.DataFrame({"sequence": pd.Series(list(x), dtype=object)})

        if self._schema is not None:
            yield from self._signed(steps, channels)
        if self._flat:
            yield "an array (B, T d)", rows
            return
        if self._schema is None:
            yield "an array (B, T, d)", lambda x: x
            yield "an array (B, T d)", rows
            yield "an array (B, d, T)", lambda x: np.ascontiguousarray(x.transpose(0, 2, 1))
            yield "a table of one column", one_column
            yield "a table of T d columns", lambda x: pd.DataFrame(rows(x))

    def _signed(self, steps: int, channels: int) -> Iterator[tuple[str, Form]]:
        """The forms that the signature leaves, the likelier first."""
        import pandas as pd

        specs = self._schema.inputs
        if self._specs is None:
            if len(specs) == 1 and steps * channels > 1:
                name = specs[0].name
                yield "a table of one column", lambda x: pd.DataFrame({name: pd.Series(list(x), dtype=object)})
            columns = self._columns or TableColumns.of(specs, (), (steps, channels))
            if columns is not None:
                first = self._channels_first
                yield "a table of T d columns", lambda x: columns.table({"x": x}, channels_first=first)
            return
        spec = specs[0]
        named = self._schema.has_input_names()

        def given(array: NDArray[Any]) -> Any:
            values = np.ascontiguousarray(array).astype(spec.type)
            return {spec.name: values} if named else values

        if _fits(spec, steps, channels):
            yield "an array (B, T, d)", given
        if _fits(spec, channels, steps) and steps != channels:
            yield "an array (B, d, T)", lambda x: given(x.transpose(0, 2, 1))
        if _fits(spec, steps * channels):
            yield "an array (B, T d)", lambda x: given(x.reshape(len(x), -1))


@dataclass(frozen=True, eq=False)
class ForwardModel:
    """A model without gradients: the module that the engine asks, and in which form it is asked."""

    network: ForwardOnly
    form: str


def forward_network(model: Any, sequences: Sequences, task: str, config: ExplainConfig) -> ForwardModel:
    """The model as a module without gradients. It is tried on a few sequences; labels are collected from all of them.

    Raises:
        ModelError: if the model takes none of the forms that the data can have.
    """
    from dynamask_mlflow.masks.forward_only import are_labels, classes_of

    shape = (sequences.x.shape[1], sequences.x.shape[2])
    flat, turned = config.shape is not None, config.layout == "channels_first"
    predictor = Predictor(
        model,
        task,
        sequences.channel_names,
        shape=shape,
        flat=flat,
        channels_first=turned,
        output_key=config.output_key,
    )
    config = config.with_options(output_key=None)
    network = ForwardOnly(predictor, arguments=predictor.arguments)
    if task != "classification":
        _asked_rows(network, sequences, config, 2)
        return ForwardModel(network, predictor.form)
    first = _asked_rows(network, sequences, config, _TRIED)
    if first.ndim == 2 and bool(np.isin(first, (0, 1)).all()) and not predictor.use_margins():
        say(
            "dynamask: the model's probabilities are 0 and 1 alone, so that a mask sees a cell only where it turns the "
            "label."
        )
    if are_labels(first):
        network = network.with_classes(classes_of(_asked_rows(network, sequences, config)))
    return ForwardModel(network, predictor.form)


def own_labels(network: ForwardOnly, sequences: Sequences, config: ExplainConfig) -> NDArray[Any] | None:
    """(N,) labels as `predict` of the model gives them; None where it gives something else."""
    from dynamask_mlflow.masks.forward_only import are_labels

    if not isinstance(network.function, Predictor):
        return None
    try:
        asked = ForwardOnly(network.function.labels, arguments=network.arguments)
        found = _asked_rows(asked, sequences, config)
    except Exception:
        return None
    return found if found.ndim == 1 and are_labels(found) else None


def own_class_names(network: Any) -> tuple[str, ...] | None:
    """The classes by the names that the model itself answers with; None where it has numbers or does not say.

    Example:
        >>> own_class_names(ForwardOnly(len, classes=["dies", "lives"]))
        ('dies', 'lives')
    """
    classes = network.classes if isinstance(network, ForwardOnly | Labelled) else None
    if classes is None and isinstance(network, ForwardOnly) and isinstance(network.function, Predictor):
        classes = getattr(network.function.inner, "classes_", None)
    names = [] if classes is None else np.ravel(np.asarray(classes, dtype=object)).tolist()
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def _asked_rows(
    network: ForwardOnly, sequences: Sequences, config: ExplainConfig, count: int | None = None
) -> NDArray[Any]:
    """The model's own answers to the first sequences, or to all of them, with everything that it takes beside x."""
    import torch

    from dynamask_mlflow.masks.adapted_model import AdaptedModel
    from dynamask_mlflow.masks.forward_only import AT_ONCE

    binding = sequences.bind(network, config)
    total, parts = min(len(sequences), count or len(sequences)), []
    for start in range(0, total, AT_ONCE):
        rows = torch.arange(start, min(start + AT_ONCE, total))
        asked, z = binding.model_of(rows, torch.device("cpu")), binding.inputs_of(rows, torch.device("cpu"))
        named = asked.arguments(z) if isinstance(asked, AdaptedModel) else {network.arguments[0]: z}
        parts.append(network.answers(**named))
    return np.concatenate(parts)


def _fits(spec: Any, *wanted: int) -> bool:
    sizes = tuple(spec.shape[1:])
    return len(sizes) == len(wanted) and all(a in (-1, b) for a, b in zip(sizes, wanted, strict=True))


def _shaped(values: NDArray[Any], spec: Any) -> NDArray[Any]:
    """An input in the shape and type of a signature."""
    forms = [values]
    if values.ndim == 3:
        forms += [values.transpose(0, 2, 1), values.reshape(len(values), -1)]
    if values.ndim == 1:
        forms.append(values[:, None])
    if values.ndim == 2 and values.shape[1] == 1:
        forms.append(values[:, 0])
    fitting = next((form for form in forms if _fits(spec, *form.shape[1:])), values)
    return np.ascontiguousarray(fitting).astype(spec.type)


def _predict(model: Any) -> Callable[[Any], Any]:
    """`predict` of a model, or the function that it is."""
    function: Any = getattr(model, "predict", model)
    if callable(function):
        if getattr(model, "arguments", ()):  # an endpoint, which is given several inputs by name
            return lambda data: model(**data) if isinstance(data, dict) else model(data)
        asked: Callable[[Any], Any] = function
        return asked
    raise ModelError(f"Expected a model with `predict` or a function, but got {type(model).__name__}.")


def _input_schema(model: Any) -> Any:
    metadata = getattr(model, "metadata", None)
    found = getattr(metadata, "get_input_schema", None)
    return found() if callable(found) else None
