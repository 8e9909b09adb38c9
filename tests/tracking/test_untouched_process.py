"""The user's process and network are afterwards as before: after success, error and interrupt."""

from __future__ import annotations

import importlib
import os
import random
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
from mlflow.exceptions import MlflowException
from small_evaluations import QUICK, X, Y
from small_networks import CHANNELS, STEPS, GRUClassifier, Regressor, sequences
from torch import Tensor, nn

from dynamask_mlflow.evaluation.model_settings import ModelSettings
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.masks.explain import explain
from dynamask_mlflow.masks.predict import predict
from dynamask_mlflow.masks.process_state import untouched_process


class Meddler(nn.Module):
    """Batch norm, dropout, a counter and noise in forward; changes whatever a process has in common."""

    def __init__(self, fault: type[BaseException] | None = None) -> None:
        super().__init__()
        self.norm, self.body = nn.BatchNorm1d(CHANNELS), GRUClassifier()
        self.register_buffer("calls", torch.zeros(1))
        self.fault = fault
        self.left = 12

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        random.random()
        np.random.rand()  # noqa: NPY002
        torch.rand(1)
        warnings.simplefilter("ignore")
        os.environ["MEDDLED"] = "1"
        torch.set_num_threads(2)
        self.left -= 1
        if self.fault is not None and self.left == 0:
            raise self.fault("enough")
        return self.body(self.norm(x.flatten(0, 1)).view_as(x))


def state(network: nn.Module) -> dict[str, Any]:
    return {
        "weights": {name: value.clone() for name, value in network.state_dict().items()},
        "training": [module.training for module in network.modules()],
        "gradients": [None if p.grad is None else p.grad.clone() for p in network.parameters()],
        "requires": [p.requires_grad for p in network.parameters()],
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state()[1],  # noqa: NPY002
        "random": random.getstate(),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "filters": list(warnings.filters),
        "environment": {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")},
    }


def check(network: nn.Module, before: dict[str, Any]) -> None:
    after = state(network)
    assert set(after) == set(before)
    for name, value in before["weights"].items():
        assert torch.equal(value, after["weights"][name]), name
    assert torch.equal(before["torch"], after["torch"])
    assert np.array_equal(before["numpy"], after["numpy"])
    for old, new in zip(before["gradients"], after["gradients"], strict=True):
        assert (old is None) == (new is None)
        assert old is None or torch.equal(old, new)
    for name in ("training", "requires", "random", "dtype", "threads", "filters", "environment"):
        assert before[name] == after[name], name


@pytest.mark.parametrize("fault", [None, RuntimeError, KeyboardInterrupt])
def test_an_evaluation_leaves_everything_as_it_was(store: Path, fault: type[BaseException] | None) -> None:
    network = Meddler(fault).train()
    network.body(torch.as_tensor(X)).sum().backward()  # gradients that a training in progress has
    dataset = mlflow.data.from_sequences(X, targets=Y)
    kept = X.copy()

    def evaluate() -> None:
        mlflow.models.evaluate(
            network,
            dataset,
            model_type="sequence-classifier",
            evaluators="dynamask",
            evaluator_config={**QUICK, "instances": 1 if fault is RuntimeError else 4},
        )

    pytest.importorskip("rich.style")  # imported by MLflow, it draws a random number
    importlib.import_module("sklearn.utils")  # imported by MLflow, it sets variables and a warnings filter
    with mlflow.start_run():  # whose name MLflow draws
        before = state(network)
        if fault is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                evaluate()
        elif fault is RuntimeError:
            with pytest.raises((MlflowException, RuntimeError), match="enough"):
                evaluate()
        else:
            evaluate()
        check(network, before)
    assert np.array_equal(X, kept)


@pytest.mark.parametrize("fault", [None, RuntimeError, KeyboardInterrupt])
def test_the_block_restores_what_it_says(fault: type[BaseException] | None) -> None:
    network = Meddler().train()
    before = state(network)

    def meddle() -> None:
        with untouched_process(network):
            torch.set_default_dtype(torch.float64)
            torch.set_default_dtype(torch.float32)
            torch.set_grad_enabled(False)
            network(torch.as_tensor(X))
            network.norm.running_mean = torch.ones(CHANNELS)
            network.calls.resize_(3)
            network.eval()
            for parameter in network.parameters():
                parameter.requires_grad_(False)
                parameter.grad = torch.ones_like(parameter)
            del os.environ["PATH"]
            torch.set_default_dtype(torch.float64)
            if fault is not None:
                raise fault

    if fault is None:
        meddle()
    else:
        with pytest.raises(fault):
            meddle()
    assert torch.is_grad_enabled()
    check(network, before)


class InPlace(Regressor):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x.mul_(2.0)
        return super().forward(x)


def test_a_network_that_works_in_place_does_not_change_the_callers_array() -> None:
    model = SequenceModel(InPlace(), ModelSettings(task="regression", steps=STEPS, channels=CHANNELS), "cpu")
    x = X.copy()
    model.predict(x)
    assert np.array_equal(x, X)


def test_an_evaluation_of_a_network_that_works_in_place_does_not_change_the_callers_array(store: Path) -> None:
    x = X[:6].copy()
    mlflow.models.evaluate(
        InPlace(),
        mlflow.data.from_sequences(x),
        model_type="sequence-regressor",
        evaluators="dynamask",
        evaluator_config={**QUICK, "instances": None},
    )
    assert np.array_equal(x, X[:6])


class Noisy(GRUClassifier):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.1 * torch.randn(len(x), 2)


def test_a_network_with_random_outputs_is_named(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {"model_type": "sequence-classifier", "evaluators": "dynamask", "evaluator_config": QUICK}
    result = mlflow.models.evaluate(Noisy(), mlflow.data.from_sequences(X), **options)
    assert "outputs are random" in caplog.text
    assert result.metrics["dynamask/diagnostics/random_outputs"] == 1
    assert result.artifacts["dynamask_config"].content["random_outputs"] is True
    assert "outputs are random" in result.artifacts["dynamask_report"].content
    caplog.clear()
    plain = mlflow.models.evaluate(GRUClassifier().train(), mlflow.data.from_sequences(X), **options)
    assert "random" not in caplog.text
    assert "dynamask/diagnostics/random_outputs" not in plain.metrics


class WithDropout(GRUClassifier):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(nn.functional.dropout(x, 0.5, self.training))


def test_threads_that_share_a_network_get_the_answers_of_one_alone() -> None:
    x, _ = sequences(4)
    network = WithDropout()
    options: dict[str, Any] = {"task": "classification", "steps": 20}
    alone, answer = explain(network, x, **options).masks, predict(network, x)
    found: list[np.ndarray] = []
    start = threading.Barrier(4)

    def ask(number: int) -> None:
        start.wait(60)
        for _ in range(3):
            found.append(explain(network, x, **options).masks if number % 2 else predict(network, x))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 12
    for values in found:
        np.testing.assert_array_equal(values, alone if values.shape == alone.shape else answer)
    assert all(module.training for module in network.modules())
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_a_fork_does_not_wait_for_a_thread_that_it_has_not() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with untouched_process():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        with untouched_process():
            os._exit(0)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        leave.set()
        thread.join(60)
