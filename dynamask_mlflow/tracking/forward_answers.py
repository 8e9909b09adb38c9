"""What a model that only predicts is asked, and how its answer is read: arrays, tables, several named outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Outputs that say more than a label, the first of which is taken where a model gives several by name.
TELLING = (
    "probabilities", "probability", "probs", "proba", "prob", "output_probability", "risk", "score", "scores", "logits",
    "logit", "predictions", "prediction", "output",
)  # fmt: skip
_LABELS = ("label", "labels", "class", "predicted_label", "predicted_class", "output_label")


class UnreadableOutputError(ValueError):
    """The model answered, but which part of the answer is meant is not known."""


def inner_model(model: Any) -> Any:
    """The model inside a pyfunc, where it runs in this process and shows it; else None."""
    from mlflow.pyfunc import PyFuncModel, _ServedPyFuncModel

    if not isinstance(model, PyFuncModel) or isinstance(model, _ServedPyFuncModel):
        return None
    try:
        return model.get_raw_model()  # type: ignore[no-untyped-call]
    except Exception:
        return None


def probabilities_of(inner: Any) -> Callable[[Any], Any] | None:
    """`predict_proba`, else `decision_function`, which is a margin and so as good as a logit."""
    for name in ("predict_proba", "decision_function"):
        found = getattr(inner, name, None)
        if callable(found):
            return _on_arrays(found)
    return None


def decisions_of(inner: Any) -> Callable[[Any], Any] | None:
    """`decision_function` of a classifier, or of the pipeline inside, as aeon's classifiers have it."""
    for owner in (inner, getattr(inner, "pipeline_", None)):
        found = getattr(owner, "decision_function", None)
        if callable(found):
            return _on_arrays(found)
    return None


def _on_arrays(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda data: function(next(iter(data.values())) if isinstance(data, dict) and len(data) == 1 else data)


def as_array(found: Any, count: int, key: str | int | None = None) -> NDArray[Any]:
    """(B,), (B, C), ... out of an array, a table, a list, or one of several named outputs, that of `key`."""
    columns = getattr(found, "columns", None)
    if key is not None:
        named = columns if columns is not None else found if isinstance(found, Mapping) else ()
        if key not in named:
            raise UnreadableOutputError(
                f"Expected an output with the key {key!r}, but its keys are {[str(each) for each in named]}."
            )
        found = found[key]
    elif columns is not None and len(columns) > 1:
        found = _of_table(found, count)
    if isinstance(found, Mapping):
        found = _one_of(found, count)
    found = _of_records(found, count)
    values = getattr(found, "to_numpy", None)
    array = values() if callable(values) else np.asarray(found)
    if array.dtype == object:
        array = np.asarray(array.tolist())
    if array.ndim == 0 or len(array) != count:
        raise ValueError(f"Expected {count} answers to {count} sequences, but got an array of shape {array.shape}.")
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _of_records(found: Any, count: int) -> Any:
    """A list with one dictionary for each sequence, as converted scikit-learn models give, as a table is read."""
    if not isinstance(found, list | tuple | np.ndarray) or not len(found):
        return found
    if not all(isinstance(each, Mapping) for each in found):
        return found
    import pandas as pd

    return _of_table(pd.DataFrame([dict(each) for each in found]), count)


def _of_table(table: Any, count: int) -> Any:
    """All columns where they are values or probabilities of one kind, else the columns by name."""
    names = [str(name).lower() for name in table.columns]
    floating = all(kind.kind == "f" for kind in (np.asarray(table[name]).dtype for name in table.columns))
    if floating and not {*TELLING, *_LABELS} & set(names):
        return table.to_numpy()
    return _one_of({str(name): np.asarray(table[name]) for name in table.columns}, count)


def _one_of(outputs: Mapping[str, Any], count: int) -> Any:
    if "predictions" in outputs and len(outputs) == 1:
        return outputs["predictions"]
    arrays = {
        str(name): value for name, value in outputs.items() if np.ndim(value) >= 1 and np.shape(value)[0] == count
    }
    numbers = {name: value for name, value in arrays.items() if np.asarray(value).dtype.kind == "f"}
    known = [name for word in TELLING for name in numbers if name.lower() == word]
    known = known or [name for word in TELLING for name in arrays if name.lower() == word]
    floats = [name for name in numbers if name.lower() not in _LABELS]
    chosen = known or (floats if len(floats) == 1 else list(arrays) if len(arrays) == 1 else [])
    if not chosen:
        raise UnreadableOutputError(
            f"Expected one output or one of a usual name ({', '.join(TELLING[:3])}, ...), but the model returns "
            f"{', '.join(map(repr, sorted(outputs)))}: say which with output_key."
        )
    return arrays[chosen[0]]
