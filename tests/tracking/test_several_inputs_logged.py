"""Registered models of several inputs, through MLflow: logged, evaluated, served by pyfunc, audited without trust."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
from stores import new_store
from torch import Tensor, nn

from dynamask_mlflow import load_model, log_model
from dynamask_mlflow.tracking.dataset import from_sequences

N, STEPS, CHANNELS = 12, 8, 3
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(N, STEPS, CHANNELS)).astype(np.float32)
LENGTHS = _RNG.integers(3, STEPS + 1, N)
STATIC = _RNG.normal(size=(N, 2)).astype(np.float32)
GIVEN = {"x": X, "lengths": LENGTHS, "static": STATIC}


class Network(nn.Module):
    """Mean of the steps that exist, and static features; in float64, with its states beside the logits."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(CHANNELS + 2, 2)
        self.double()

    def forward(self, x: Tensor, padding_mask: Tensor | None = None, static: Tensor | None = None) -> Any:
        assert static is not None
        valid = (torch.ones_like(x[:, :, :1]) if padding_mask is None else (~padding_mask)[:, :, None]).to(x.dtype)
        mean = (x * valid).sum(1) / valid.sum(1)
        return self.head(torch.cat([mean, static], 1)), mean


class ChannelsFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(CHANNELS, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x).mean(2)


@pytest.fixture(scope="module", autouse=True)
def _store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("several")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(new_store(folder))
    mlflow.create_experiment("several", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("several")
    yield
    mlflow.set_tracking_uri(before)


def evaluated(model: Any, data: Any, **options: Any) -> Any:
    with mlflow.start_run():
        return mlflow.models.evaluate(
            model,
            data,
            model_type="classifier",
            evaluators="dynamask",
            evaluator_config={"images": 0, "progress": False, **options},
        )


def dataset(**options: Any) -> Any:
    return from_sequences(X, lengths=LENGTHS, targets=np.arange(N) % 2, **options)


def test_a_model_of_several_inputs_is_logged_evaluated_and_served() -> None:
    network = Network()
    info = log_model(
        network,
        "several",
        task="classification",
        input_example={name: values[:2] for name, values in GIVEN.items()},
        registered_model_name="several",
        pip_requirements=["torch"],
    )
    assert [spec.name for spec in info.signature.inputs] == ["x", "lengths", "static"]
    result = evaluated("models:/several/1", dataset(extras={"static": STATIC}))
    masks = result.artifacts["dynamask_masks"].content
    padding = torch.as_tensor(np.arange(STEPS) >= LENGTHS[:, None])
    logits = network(torch.as_tensor(X).double(), padding, torch.as_tensor(STATIC).double())[0].detach().numpy()
    np.testing.assert_allclose(masks.diagnostics["answer"], logits[:, 1] - logits[:, 0], atol=1e-5)
    assert masks.static_attributions.shape == (N, 2)
    np.testing.assert_allclose(masks.config["static_baseline"]["static"], STATIC.mean(0), rtol=1e-5)

    served = mlflow.pyfunc.load_model("models:/several/1")
    np.testing.assert_array_equal(served.predict(GIVEN), logits.argmax(1))
    table = served.predict({name: values[:2] for name, values in GIVEN.items()}, params={"explain": True})
    assert table["static_names"][0] == ["static:0", "static:1"]
    untrusted = load_model("models:/several/1", untrusted=True)
    np.testing.assert_array_equal(untrusted.predict(GIVEN), logits.argmax(1))


def test_what_a_required_argument_lacks_is_an_error_that_names_it() -> None:
    class Ages(Network):
        def forward(self, x: Tensor, ages: Tensor) -> Tensor:
            return self.head(torch.cat([x.mean(1), ages], 1))

    with pytest.raises(mlflow.exceptions.MlflowException, match="the model's argument 'ages' takes"):
        evaluated(Ages(), dataset())


def test_channels_first_is_told_by_the_signature() -> None:
    network = ChannelsFirst()
    info = mlflow.pytorch.log_model(
        network, name="first", input_example=X[:2].transpose(0, 2, 1).copy(), pip_requirements=["torch"]
    )
    masks = evaluated(info.model_uri, from_sequences(X, targets=np.arange(N) % 2)).artifacts["dynamask_masks"].content
    logits = network(torch.as_tensor(X).transpose(1, 2)).detach().numpy()
    np.testing.assert_allclose(masks.diagnostics["answer"], logits[:, 1] - logits[:, 0], atol=1e-5)


class Forecaster(nn.Module):
    """(B, 2, d): the last step, and half of it."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x[:, -1], x[:, -1] / 2], 1)


def test_horizons_are_explained_together_or_one_by_one_and_measured_each() -> None:
    data = from_sequences(X, targets=np.zeros((N, 2, CHANNELS)))
    with mlflow.start_run():
        result = mlflow.models.evaluate(
            Forecaster(), data, model_type="sequence-regressor", evaluators="dynamask", evaluator_config={"images": 0}
        )
    masks = result.artifacts["dynamask_masks"].content
    assert not masks.binary[:, :-1].any()
    assert set(masks.algorithm) == {"gradients"}
    near, far = (result.metrics[f"dynamask/squared_error/horizon_{k}"] for k in (0, 1))
    assert near == pytest.approx(4 * far, rel=1e-4)
