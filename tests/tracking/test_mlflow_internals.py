"""A newer MLflow whose insides differ gives one clear line, and everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from mlflow.models.evaluation import default_evaluator as mlflows

from dynamask_mlflow.tracking import mlflow_internals
from dynamask_mlflow.tracking.dataset import from_sequences
from dynamask_mlflow.tracking.mlflow_internals import refuse_unknown_params


@pytest.fixture(autouse=True)
def lines_are_said_again() -> Iterator[None]:
    mlflow_internals._say_once.cache_clear()
    yield
    mlflow_internals._say_once.cache_clear()


def test_this_mlflow_has_all_that_is_needed() -> None:
    assert mlflow_internals.missing_internals() == []


@pytest.mark.parametrize("change", ["gone", "other arguments"])
def test_another_default_evaluator_gives_one_line_and_the_dataset_works(
    change: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if change == "gone":
        monkeypatch.delattr(mlflows, "BuiltInEvaluator")
    else:
        other = type("BuiltInEvaluator", (), {"evaluate": lambda self, request: None})
        monkeypatch.setattr(mlflows, "BuiltInEvaluator", other)
    data = from_sequences(np.zeros((3, 4, 2), dtype=np.float32), targets=[0, 1, 0])
    for _ in range(2):
        made = data.to_evaluation_dataset()
    assert made.has_targets
    assert made.labels_data.tolist() == [0, 1, 0]
    assert made.hash == data.digest
    said = caplog.text
    assert said.count("evaluators='dynamask' alone") == 1
    assert "MLflow 3." in said


def test_another_wording_of_the_warning_gives_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mlflow_internals.inspect, "getsource", lambda module: "params that nobody knows: {names}")
    for _ in range(2):
        refuse_unknown_params(frozenset({"explain"}))
    assert caplog.text.count("Misspelt params of predict() are ignored") == 1
