"""`mlflow.data.from_sequences` and friends. Imported with every `import mlflow`: keep it light.

No `from __future__ import annotations` here: MLflow reads the constructors' return annotations and needs
the class itself.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlflow.data.dataset import Dataset
from mlflow.data.dataset_source import DatasetSource
from mlflow.data.evaluation_dataset import EvaluationDataset
from mlflow.data.pyfunc_dataset_mixin import PyFuncConvertibleDatasetMixin, PyFuncInputsOutputs

if TYPE_CHECKING:
    import os

    import numpy as np
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from dynamask_mlflow.evaluation.sequences import Sequences

COLUMN = "sequence"


class ChannelSchema:
    """The schema that MLflow's UI can search: one column a channel, typed "float32[T]"."""

    def __init__(self, columns: Sequence[Mapping[str, str]]) -> None:
        self.columns = list(columns)

    def to_dict(self) -> dict[str, Any]:
        return {"mlflow_colspec": [dict(column) for column in self.columns]}


class SequenceDataset(Dataset, PyFuncConvertibleDatasetMixin):
    """Sequences (N, T, d) with targets and names, as a dataset of MLflow Tracking."""

    def __init__(
        self,
        sequences: "Sequences",
        source: DatasetSource,
        name: str | None = None,
        digest: str | None = None,
    ) -> None:
        if name is not None and '"' in name:
            raise ValueError(f"Expected a dataset name without double quotes, but got {name}")
        self._sequences = sequences
        super().__init__(source=source, name=name, digest=digest)

    def _compute_digest(self) -> str:
        return self._sequences.digest()

    def __repr__(self) -> str:
        n, steps, channels = self._sequences.x.shape
        targets = "no targets" if self.targets is None else f"targets {self.targets.shape}"
        return f"SequenceDataset({self.name!r}: {n} sequences, {steps} steps, {channels} channels, {targets})"

    @property
    def sequences(self) -> "Sequences":
        return self._sequences

    @property
    def features(self) -> "NDArray[np.float32]":
        return self._sequences.given_x

    @property
    def targets(self) -> "NDArray[Any] | None":
        return self._sequences.targets

    @property
    def ids(self) -> tuple[str, ...]:
        return self._sequences.ids

    @property
    def channel_names(self) -> tuple[str, ...]:
        return self._sequences.channel_names

    @property
    def schema(self) -> ChannelSchema:
        steps = self._sequences.x.shape[1]
        columns = [{"name": name, "type": f"float32[{steps}]"} for name in self.channel_names]
        if self.targets is not None:
            shape = "".join(f"[{size}]" for size in self.targets.shape[1:])
            columns.append({"name": "target", "type": f"{self.targets.dtype}{shape}"})
        return ChannelSchema(columns)

    @property
    def profile(self) -> dict[str, Any]:
        n, steps, channels = self._sequences.x.shape
        profile: dict[str, Any] = {
            "num_rows": n,
            "num_elements": n * steps * channels,
            "features_shape": [n, steps, channels],
            "first_time": self._sequences.times[0],
            "last_time": self._sequences.times[-1],
        }
        if self.targets is not None:
            profile["targets_shape"] = list(self.targets.shape)
        if self._sequences.lengths is not None:
            profile["mean_length"] = round(float(self._sequences.lengths.mean()), 3)
        if self._sequences.observed is not None:
            profile["share_observed"] = round(float(self._sequences.observed.mean()), 5)
        for name, values in self._sequences.extras.items():
            profile[f"{name}_shape"] = list(values.shape)
        return profile

    def to_dict(self) -> dict[str, str]:
        described: dict[str, str] = super().to_dict()
        return described | {"schema": json.dumps(self.schema.to_dict()), "profile": json.dumps(self.profile)}

    def to_pyfunc(self) -> PyFuncInputsOutputs:
        return PyFuncInputsOutputs([self.features], None if self.targets is None else [self.targets])

    def to_evaluation_dataset(
        self, path: str | None = None, feature_names: Sequence[str] | None = None
    ) -> "SequenceEvaluationDataset":
        return SequenceEvaluationDataset(self, path=path, feature_names=feature_names)

    def save(self, path: "str | os.PathLike[str]") -> "SequenceDataset":
        """Write one npz file; returns the dataset with that file as its source, which can be loaded again."""
        where = self._sequences.save(path).resolve()
        return SequenceDataset(self._sequences, _source(str(where)), self._name, self._digest)


class SequenceEvaluationDataset(EvaluationDataset):
    """`features_data` holds one (T, d) array a row, for MLflow's own evaluators; `sequences` everything."""

    def __init__(
        self, dataset: SequenceDataset, path: str | None = None, feature_names: Sequence[str] | None = None
    ) -> None:
        if feature_names is not None and list(feature_names) != [COLUMN]:
            raise ValueError(
                "Expected no feature_names with sequences, whose channels have names of their own, "
                f"but got {list(feature_names)}."
            )
        import pandas as pd

        from dynamask_mlflow.tracking.mlflow_internals import teach_default_evaluator

        teach_default_evaluator()
        sequences = dataset.sequences
        super().__init__(  # type: ignore[no-untyped-call]
            pd.DataFrame({COLUMN: pd.Series(list(sequences.given_x), dtype=object)}),
            name=dataset.name,
            path=path,
            digest=dataset.digest,
        )
        self._sequences, self._content = sequences, dataset.digest

    @property
    def hash(self) -> str:
        """The digest of the whole content; MLflow's own looks at ten rows."""
        return self._content

    @property
    def has_targets(self) -> bool:
        return self._sequences.targets is not None

    @property
    def labels_data(self) -> Any:
        """What MLflow's own evaluators compare predictions with; ours takes the targets from `sequences`."""
        labels = self._sequences.targets
        if labels is not None and labels.ndim > 1:
            from mlflow.exceptions import MlflowException

            raise MlflowException.invalid_parameter_value(
                "Expected one target for each sequence, as MLflow's default evaluator needs them, but got targets of "
                f"shape {labels.shape}. Evaluate with model_type='sequence-classifier' or 'sequence-regressor', or "
                "with evaluators='dynamask' alone."
            )
        return labels

    @property
    def sequences(self) -> "Sequences":
        return self._sequences

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, SequenceEvaluationDataset) and self.digest == other.digest and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.digest)


def from_sequences(
    x: "ArrayLike | Sequence[ArrayLike] | pd.DataFrame",
    *,
    targets: "ArrayLike | None" = None,
    ids: Sequence[Any] | None = None,
    channel_names: Sequence[str] | None = None,
    times: Sequence[Any] | None = None,
    lengths: "ArrayLike | None" = None,
    observed: "ArrayLike | None" = None,
    extras: "Mapping[str, ArrayLike] | None" = None,
    measured: "ArrayLike | None" = None,
    source: str | DatasetSource | None = None,
    name: str | None = None,
    digest: str | None = None,
) -> SequenceDataset:
    """A dataset from an array (N, T, d), or from sequences of unequal lengths.

    Args:
        x: (N, T, d) numbers, finite outside the padding; kept as float32. Or a list of arrays (T_i, d), a list of darts
            series, or a nested table of sktime; these tell the lengths themselves.
        targets: (N,) for one answer a sequence, (N, T) for one a step.
        ids, channel_names, times: names of the instances, channels and steps; unique, by default numbered.
        lengths: (N,) steps that exist in each instance; what follows is padding.
        observed: (N, T, d) True where a value was measured rather than filled in.
        extras: further inputs of the model, name -> (N, ...). Floats (N,) and (N, s) are static features, which get
            attributions of their own; whole numbers are codes, passed as they are.
        measured: (N, T, d) as `observed`, but for the report alone, which draws filled-in values differently where it
            has the inputs: cells that were filled in may be salient.
        source: where the data came from: a path, a URI, or a `DatasetSource`. By default the calling code.
        name, digest: as in every dataset of MLflow; the digest is computed over every byte if not given.
    """
    from dynamask_mlflow.evaluation.sequences import as_sequences

    sequences = as_sequences(
        x,
        targets=targets,
        ids=ids,
        channel_names=channel_names,
        times=times,
        lengths=lengths,
        observed=observed,
        extras=extras,
        measured=measured,
    )
    return SequenceDataset(sequences, _source(source), name, digest)


def from_long_frame(
    df: "pd.DataFrame",
    *,
    id: str,
    time: str,
    channels: Sequence[str] | str,
    values: str | None = None,
    targets: str | None = None,
    targets_per_step: bool = False,
    since_start: str | None = None,
    fill: str | float = "error",
    source: str | DatasetSource | None = None,
    name: str | None = None,
    digest: str | None = None,
) -> SequenceDataset:
    """A dataset from a tidy table, aligned on the grid of all its times.

    Args:
        df: one row for each id and time; or, with `values`, one for each id, time and channel.
        id, time: columns that name the instance and the step. Rows may come in any order.
        channels: the columns that are channels; with `values`, the column that names the channel.
        values: the column of values, for a table with one row a measurement.
        targets: a column, constant within each id; with `targets_per_step` one value a row.
        since_start: "seconds", "minutes", "hours" or "days": timestamps become whole units since the first row of their
            id. For sequences that begin at different dates, which have hardly a time in common.
        fill: what to do with cells that are missing before an instance's last row: "error", "forward" (the
            last value seen; before any, the channel's mean over the table), or a number. Filled cells are
            marked as not observed. Rows missing after an instance's last one make it shorter.
        source, name, digest: as in `from_sequences`.
    """
    from dynamask_mlflow.evaluation.long_frame import Columns, sequences_from_long_frame

    named = {"id": id, "time": time, "channels": channels, "values": values, "targets": targets}
    columns = Columns(**named, targets_per_step=targets_per_step, since_start=since_start)  # type: ignore[arg-type]
    return SequenceDataset(sequences_from_long_frame(df, columns, fill), _source(source), name, digest)


def load_sequences(
    path: "str | os.PathLike[str]", *, name: str | None = None, digest: str | None = None
) -> SequenceDataset:
    """A dataset from a file that `SequenceDataset.save` wrote: a path or any URI MLflow can download."""
    from dynamask_mlflow.evaluation.sequences import Sequences
    from dynamask_mlflow.tracking.mlflow_client import download

    return SequenceDataset(Sequences.load(download(str(path))), _source(str(path)), name, digest)


def _source(source: str | DatasetSource | None) -> DatasetSource:
    if isinstance(source, DatasetSource):
        return source
    if source is not None:
        from mlflow.data.dataset_source_registry import resolve_dataset_source

        from dynamask_mlflow._secrets import without_secrets

        with warnings.catch_warnings():
            # MLflow has registered the source of local files twice, and warns of the choice between the two.
            warnings.filterwarnings("ignore", message="The specified dataset source can be interpreted")
            return resolve_dataset_source(without_secrets(source))  # it is stored with every run
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.tracking.context import registry

    return CodeDatasetSource(tags=registry.resolve_tags())
