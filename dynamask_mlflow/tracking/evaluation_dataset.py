"""Sequences as MLflow's evaluators take data: a table of one object column, and the arrays beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from mlflow.data.evaluation_dataset import EvaluationDataset
from mlflow.exceptions import MlflowException

from dynamask_mlflow.tracking.default_evaluator import teach_default_evaluator

if TYPE_CHECKING:
    from dynamask_mlflow.evaluation.sequences import Sequences
    from dynamask_mlflow.tracking.dataset import SequenceDataset

COLUMN = "sequence"


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
        teach_default_evaluator()
        sequences = dataset.sequences
        super().__init__(  # type: ignore[no-untyped-call]
            pd.DataFrame({COLUMN: pd.Series(list(sequences.x), dtype=object)}),
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
            raise MlflowException.invalid_parameter_value(
                "Expected one target for each sequence, as MLflow's default evaluator needs them, but got targets of "
                f"shape {labels.shape}. Evaluate with model_type='sequence-classifier' or 'sequence-regressor', or "
                "with evaluators='dynamask' alone."
            )
        return labels

    @property
    def sequences(self) -> Sequences:
        return self._sequences

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, SequenceEvaluationDataset) and self.digest == other.digest and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.digest)
