"""What the evaluator says to settings, data and models that do not fit, and what it does when a model fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
from mlflow.exceptions import MlflowException
from small_evaluations import X, Y, data, evaluate, numbers
from small_networks import (
    NAMES,
    GRUClassifier,
)

import dynamask_mlflow


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"instanses": 3}, r"Unknown key 'instanses'\. Did you mean 'instances'"),
        ({"instances": 0}, "Expected instances >= 1"),
        ({"ids": ["nobody"]}, "1 of 1 are not among its 30: 'nobody'"),
        ({"method": "magic"}, "magic.*nested"),
        ({"operators": ["sharpen:3"]}, "sharpen"),
    ],
)
def test_bad_settings_are_named(store: Path, saved: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MlflowException, match=f"dynamask: .*{message}"):
        evaluate(saved, **options)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (lambda: data(channel_names=[*NAMES[1:], NAMES[0]]), "channel 0 is 'Lactate' instead of 'HeartRate'"),
        (lambda: mlflow.data.from_sequences(X[:, :, :3], targets=Y), r"\(10, 4\), as the model takes .* \(10, 3\)"),
        (lambda: mlflow.data.from_sequences(X[:, :5], targets=Y), r"\(10, 4\), as the model takes .* \(5, 4\)"),
    ],
)
def test_data_that_do_not_fit_the_model_are_named(store: Path, saved: str, dataset: Any, message: str) -> None:
    with pytest.raises(MlflowException, match=message):
        evaluate(saved, dataset())


def test_a_model_type_against_the_models_task_is_named(store: Path, saved: str) -> None:
    with pytest.raises(MlflowException, match=r"Expected a model_type for classification, .* 'regressor'"):
        evaluate(saved, model_type="regressor")


class FailsOnLarge(GRUClassifier):
    """Not a number where a value is absurd: a model that fails on some stays."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        absurd = x.abs().amax(dim=(1, 2))[:, None] > 100
        return super().forward(x) + torch.where(absurd, torch.nan, 0.0)


def test_instances_on_which_the_model_fails_are_counted_and_named(store: Path, tmp_path: Path) -> None:
    dynamask_mlflow.save_model(FailsOnLarge(), tmp_path / "m", task="classification", input_example=X[:2])
    bad = ["4", "11", "29"]
    x = X.copy()
    x[[4, 11, 29], 5, 2] = 1e4
    result = evaluate(str(tmp_path / "m"), mlflow.data.from_sequences(x, targets=Y), instances=None)
    assert result.metrics["dynamask/failures"] == 3
    assert result.metrics["dynamask/instances"] == 27
    record = result.artifacts["dynamask_config"].content
    assert sorted(record["failures"]) == sorted(bad)
    assert set(record["ids"]).isdisjoint(bad)


def test_a_model_that_fails_on_everything_is_an_error_and_leaves_nothing_behind(store: Path, tmp_path: Path) -> None:
    dynamask_mlflow.save_model(FailsOnLarge(), tmp_path / "m", task="classification", input_example=X[:2])
    with mlflow.start_run() as run, pytest.raises(MlflowException, match="NaN or infinity"):
        evaluate(str(tmp_path / "m"), mlflow.data.from_sequences(np.full_like(X, 1e4), targets=Y))
    assert mlflow.MlflowClient().list_artifacts(run.info.run_id) == []


def test_one_instance_of_constant_series_with_a_name_full_of_markup(store: Path, saved: str) -> None:
    name = '../<img src=x onerror="alert(1)">'
    one = mlflow.data.from_sequences(np.ones((1, *X.shape[1:])), targets=[1], ids=[name])
    result = evaluate(saved, one)
    assert result.metrics["dynamask/instances"] == 1
    assert np.isfinite(list(numbers(result).values())).all()
    assert result.tables["dynamask_instances"]["id"].tolist() == [name]
    paths = [artifact.uri for artifact in result.artifacts.values()]
    assert not any("<" in path or ".." in path for path in paths)
    assert "<img" not in result.artifacts["dynamask_report"].content
