"""Models that only predict (scikit-learn, trees, ONNX, Keras, any pyfunc, an endpoint) as functions of (B, T, d)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.forward_only import ForwardOnly

Form = Callable[[NDArray[np.float32]], Any]
"""Sequences (B, T, d) as a model takes them."""

# Outputs that say more than a label, the first of which is taken where a model gives several by name.
_TELLING = ("probabilities", "probability", "probs", "output_probability", "logits", "scores", "predictions", "output")


class Predictor:
    """A model as a function of arrays (B, T, d). How it takes them is found out at the first call.

    The signature decides where there is one: (-1, T, d), (-1, d, T), (-1, T d), or T d columns, by their names
    ("HR_0", "t3_HR") or else time by time. Without a signature each of these is tried in turn.

    Args:
        model: with `predict`, as MLflow's evaluators get it; or a function.
        task: for "classification", `predict_proba` of the model inside is used where there is one.
        channel_names: of the data, to read the names of columns.
        flat: the model takes windows in one row, whatever it says.
    """

    def __init__(self, model: Any, task: str, channel_names: Sequence[str] = (), *, flat: bool = False) -> None:
        self._ask = _asked(model, task)
        self._schema = _input_schema(model)
        self._names = tuple(channel_names)
        self._flat = flat
        self._form: Form | None = None

    def __call__(self, x: NDArray[np.float32]) -> NDArray[Any]:
        if self._form is not None:
            return _as_array(self._ask(self._form(x)), len(x))
        failures = []
        for words, form in self._forms(x.shape[1], x.shape[2]):
            try:
                found = _as_array(self._ask(form(x)), len(x))
            except Exception as error:
                failures.append(f"{words}: {str(error).splitlines()[0][:200] if str(error) else type(error).__name__}")
                continue
            self._form = form
            return found
        raise ModelError(
            f"Expected a model that predicts from {len(x)} sequences of shape (T, d) = {x.shape[1:]}, but it failed as "
            f"{'; as '.join(failures)}. Log it with a signature of one of these forms, or say shape=(T, d) if it takes "
            "windows in one row."
        )

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
        if not self._schema.is_tensor_spec():
            names = [spec.name for spec in specs]
            if len(names) == 1 and steps * channels > 1:
                yield "a table of one column", lambda x: pd.DataFrame({names[0]: pd.Series(list(x), dtype=object)})
            if len(names) == steps * channels:
                order = column_order(names, self._names, steps)
                dtypes = {spec.name: spec.type.to_numpy() for spec in specs}
                yield (
                    "a table of T d columns",
                    lambda x: pd.DataFrame(x.reshape(len(x), -1)[:, order], columns=names).astype(dtypes),
                )
            return
        spec = specs[0]
        name = spec.name if self._schema.has_input_names() else None
        sizes = tuple(spec.shape[1:])

        def given(array: NDArray[Any]) -> Any:
            values = np.ascontiguousarray(array).astype(spec.type)
            return values if name is None else {name: values}

        def fits(*wanted: int) -> bool:
            return len(sizes) == len(wanted) and all(a in (-1, b) for a, b in zip(sizes, wanted, strict=True))

        if fits(steps, channels):
            yield "an array (B, T, d)", given
        if fits(channels, steps) and steps != channels:
            yield "an array (B, d, T)", lambda x: given(x.transpose(0, 2, 1))
        if fits(steps * channels):
            yield "an array (B, T d)", lambda x: given(x.reshape(len(x), -1))


def forward_network(model: Any, x: NDArray[np.float32], task: str, channel_names: Sequence[str], *, flat: bool) -> Any:
    """The model as a module without gradients. It is tried on two sequences; labels are collected from all of them."""
    import torch

    from dynamask_mlflow.masks.forward_only import are_labels, labelled

    predictor = Predictor(model, task, channel_names, flat=flat)
    first = predictor(x[:2])
    network = ForwardOnly(predictor)
    if task == "classification" and are_labels(first):
        return labelled(network, torch.as_tensor(x))
    return network


def column_order(names: Sequence[str], channels: Sequence[str], steps: int) -> NDArray[np.intp]:
    """Places t d + i of the columns, by names that hold a channel's name and a step; else as they stand.

    Example:
        >>> column_order(["HR_0", "HR_1", "BP_0", "BP_1"], ["HR", "BP"], 2).tolist()
        [0, 2, 1, 3]
    """
    places = []
    for name in names:
        inside = [channel for channel in channels if str(channel) in str(name)]
        channel = max(inside, key=lambda each: len(str(each)), default=None)
        step = re.findall(r"\d+", str(name).replace(str(channel), " ", 1)) if channel is not None else []
        if channel is None or len(step) != 1:
            return np.arange(len(names))
        places.append((int(step[0]), list(channels).index(channel)))
    first = min(step for step, _ in places)
    order = np.array([(step - first) * len(channels) + channel for step, channel in places])
    return order if sorted(order.tolist()) == list(range(len(names))) else np.arange(len(names))


def _asked(model: Any, task: str) -> Callable[[Any], Any]:
    """`predict_proba` of the model inside, or the model's own `predict`."""
    from mlflow.pyfunc import PyFuncModel, _ServedPyFuncModel

    if task == "classification" and isinstance(model, PyFuncModel) and not isinstance(model, _ServedPyFuncModel):
        try:
            raw = model.get_raw_model()  # type: ignore[no-untyped-call]
        except Exception:
            raw = None
        chances = getattr(raw, "predict_proba", None)
        if callable(chances):
            return lambda data: chances(next(iter(data.values())) if isinstance(data, dict) else data)
    function: Any = getattr(model, "predict", model)
    if callable(function):
        asked: Callable[[Any], Any] = function
        return asked
    raise ModelError(f"Expected a model with `predict` or a function, but got {type(model).__name__}.")


def _input_schema(model: Any) -> Any:
    metadata = getattr(model, "metadata", None)
    found = getattr(metadata, "get_input_schema", None)
    return found() if callable(found) else None


def _as_array(found: Any, count: int) -> NDArray[Any]:
    """(B,), (B, C), ... out of an array, a table, a list, or one of several named outputs."""
    if isinstance(found, Mapping):
        found = _one_of(found, count)
    values = getattr(found, "to_numpy", None)
    array = values() if callable(values) else np.asarray(found)
    if array.dtype == object:
        array = np.asarray(array.tolist())
    if array.ndim == 0 or len(array) != count:
        raise ValueError(f"Expected {count} answers to {count} sequences, but got an array of shape {array.shape}.")
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _one_of(outputs: Mapping[str, Any], count: int) -> Any:
    if "predictions" in outputs and len(outputs) == 1:
        return outputs["predictions"]
    arrays = {
        str(name): value for name, value in outputs.items() if np.ndim(value) >= 1 and np.shape(value)[0] == count
    }
    known = [name for word in _TELLING for name in arrays if name.lower() == word]
    floats = [name for name in arrays if np.asarray(arrays[name]).dtype.kind == "f"]
    chosen = known or (floats if len(floats) == 1 else list(arrays) if len(arrays) == 1 else [])
    if not chosen:
        raise ValueError(f"Expected one output, or one named as {_TELLING}, but got {sorted(outputs)}.")
    return arrays[chosen[0]]
