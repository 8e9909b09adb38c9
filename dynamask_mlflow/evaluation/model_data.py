"""What a model is asked about, in any form in which it may come: an array, a table, a mapping of arrays, sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.sequences import Sequences

if TYPE_CHECKING:
    from dynamask_mlflow.masks.side_inputs import SideInputs

X_NAMES = ("x", "sequence")


@dataclass(frozen=True, eq=False)
class ModelData:
    """x (N, T, d), and what the model may take beside it."""

    x: NDArray[np.float32]
    lengths: NDArray[Any] | None = None
    observed: NDArray[Any] | None = None
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def side(self) -> SideInputs:
        from dynamask_mlflow.masks.side_inputs import SideInputs, check_extras

        return SideInputs(self.lengths, self.observed, check_extras(self.extras, len(self.x)))


def model_data(data: Any) -> ModelData:
    """Read an array (N, T, d), `Sequences`, a mapping of arrays by input, or a table with a column for each input."""
    if isinstance(data, ModelData):
        return data
    if isinstance(data, Sequences):
        return ModelData(data.given_x, data.lengths, data.observed, data.extras)
    if isinstance(data, Mapping):
        return _from_columns({str(name): np.asarray(values) for name, values in data.items()})
    columns = getattr(data, "columns", None)
    if columns is None:
        return ModelData(np.asarray(data, dtype=np.float32))
    if len(columns) == 1:
        return ModelData(_column(data.iloc[:, 0]).astype(np.float32))
    return _from_columns({str(name): _column(data[name]) for name in columns})


def _column(values: Any) -> NDArray[Any]:
    return np.stack([np.asarray(row) for row in values])


def _from_columns(columns: dict[str, NDArray[Any]]) -> ModelData:
    name = next((each for each in X_NAMES if each in columns), None)
    if name is None and len(columns) == 1:
        name = next(iter(columns))
    if name is None:
        raise ValueError(f"Expected the sequences under the name 'x', but got {sorted(columns)}.")
    x = columns.pop(name).astype(np.float32)
    lengths, observed = columns.pop("lengths", None), columns.pop("observed", None)
    return ModelData(x, lengths, None if observed is None else observed.astype(np.bool_), columns)
