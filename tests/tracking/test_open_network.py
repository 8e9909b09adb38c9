from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
from mlflow.models import Model
from mlflow.models.evaluation.base import _get_model_from_function
from mlflow.pyfunc import _ServedPyFuncModel
from mlflow.pyfunc.scoring_server.client import ScoringServerClient
from small_networks import GRUClassifier, sequences

from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.tracking.open_network import NoGradientsError, as_given, differentiable_network, open_network

X, _ = sequences(4)


class HoldsANetwork(mlflow.pyfunc.PythonModel):
    """A custom model may offer its network."""

    def __init__(self) -> None:
        self.network = GRUClassifier()

    def get_raw_model(self) -> torch.nn.Module:
        return self.network

    def predict(self, context: Any, model_input: list[Any], params: Any = None) -> list[int]:
        return [0] * len(model_input)


class Opaque(HoldsANetwork):
    get_raw_model = None


class Labels(GRUClassifier):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).argmax(-1)


def load(tmp_path: Path, python_model: Any) -> Any:
    mlflow.pyfunc.save_model(tmp_path / "m", python_model=python_model, pip_requirements=["mlflow"])
    return mlflow.pyfunc.load_model(str(tmp_path / "m"))


def test_a_custom_model_may_offer_its_network(tmp_path: Path) -> None:
    assert type(differentiable_network(load(tmp_path, HoldsANetwork()))).__name__ == "GRUClassifier"


def test_a_module_is_taken_as_it_is() -> None:
    network = GRUClassifier()
    assert differentiable_network(network) is network
    assert as_given(_get_model_from_function(network)) is network


def test_a_function_that_calls_a_network_is_not_that_network() -> None:
    network = GRUClassifier()
    wrapped = _get_model_from_function(lambda x: -network(torch.as_tensor(x)))
    assert as_given(wrapped) is wrapped


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (None, "no model was given"),
        (lambda table: table, "a plain function or an endpoint"),
        (
            _ServedPyFuncModel(Model(), ScoringServerClient("127.0.0.1", 1), server_pid=0),
            "a server of its own .* env_manager='local' would",
        ),
    ],
)
def test_why_there_are_no_gradients(model: Any, reason: str) -> None:
    with pytest.raises(NoGradientsError, match=reason):
        differentiable_network(model)


def test_an_opaque_custom_model_has_none(tmp_path: Path) -> None:
    python_model = Opaque()
    del python_model.network
    with pytest.raises(NoGradientsError, match="expected a torch network inside the model"):
        differentiable_network(load(tmp_path, python_model))


def test_a_sklearn_model_has_none(tmp_path: Path) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    fitted = linear_model.LinearRegression().fit(np.eye(3), np.arange(3))
    mlflow.sklearn.save_model(fitted, tmp_path / "m", pip_requirements=["mlflow"])
    with pytest.raises(NoGradientsError, match="but found a LinearRegression"):
        differentiable_network(mlflow.pyfunc.load_model(str(tmp_path / "m")))


def test_a_network_that_answers_with_labels_gives_probabilities() -> None:
    network, data = GRUClassifier(), as_sequences(X)
    assert open_network(network, data, "classification", ExplainConfig())[0] is network
    labels, _ = open_network(Labels(), data, "classification", ExplainConfig())
    chances = labels(torch.as_tensor(X))
    assert chances.shape == (4, 2)
    torch.testing.assert_close(chances.amax(1), torch.full((4,), 0.99))
    torch.testing.assert_close(chances.sum(1), torch.ones(4))
