from __future__ import annotations

import json
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.data.evaluation_dataset import EvaluationDataset
from small_networks import NAMES, sequences


def test_the_schema_lists_every_channel_so_that_the_ui_can_search_it() -> None:
    x, y = sequences(5)
    described = mlflow.data.from_sequences(x, targets=y, channel_names=NAMES, name="stays").to_dict()
    columns = json.loads(described["schema"])["mlflow_colspec"]
    assert columns[1] == {"name": "Lactate", "type": "float32[10]"}
    assert columns[-1] == {"name": "target", "type": "int64"}
    assert json.loads(described["profile"])["num_rows"] == 5
    assert described["name"] == "stays"


def test_evaluators_of_mlflow_get_one_array_a_row_and_ours_gets_everything() -> None:
    x, y = sequences(12)
    dataset = mlflow.data.from_sequences(x, targets=y, name="stays")
    evaluation = dataset.to_evaluation_dataset()
    assert isinstance(evaluation, EvaluationDataset)
    assert isinstance(evaluation.features_data, pd.DataFrame)
    np.testing.assert_array_equal(evaluation.features_data.iloc[3, 0], x[3])
    np.testing.assert_array_equal(evaluation.labels_data, y)
    assert evaluation.sequences.x.shape == x.shape
    assert (evaluation.name, evaluation.digest, evaluation.hash) == ("stays", dataset.digest, dataset.digest)


def test_feature_names_are_refused_because_channels_have_names() -> None:
    with pytest.raises(ValueError, match="Expected no feature_names with sequences"):
        mlflow.data.from_sequences(sequences(2)[0]).to_evaluation_dataset(feature_names=["a"])


def test_a_saved_dataset_comes_back_from_the_source_that_a_run_logged(store: Path) -> None:
    x, y = sequences(6)
    dataset = mlflow.data.from_sequences(x, targets=y, channel_names=NAMES).save(store / "stays.npz")
    with mlflow.start_run() as run:
        mlflow.log_input(dataset, context="validation")
    logged = mlflow.get_run(run.info.run_id).inputs.dataset_inputs[0]
    again = mlflow.data.load_sequences(mlflow.data.get_source(logged).load())
    assert again.digest == dataset.digest == logged.dataset.digest
    np.testing.assert_array_equal(again.features, x)


def test_a_dataset_without_a_source_names_the_code_that_made_it() -> None:
    assert mlflow.data.from_sequences(sequences(2)[0]).source._get_source_type() == "code"
