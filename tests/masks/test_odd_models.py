"""Networks that write to their input, keep a state, compute in half precision or cut their gradients; odd inputs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamask_mlflow import explain
from dynamask_mlflow.masks.errors import ModelError

X = np.random.default_rng(0).normal(size=(3, 8, 2)).astype(np.float32)


class Plain(nn.Module):
    """The risk is the mean of the last four steps, twice."""

    def forward(self, x: Tensor) -> Tensor:
        score = 2 * x[:, 4:].mean((1, 2))
        return torch.stack([-score, score], 1)


class InPlace(Plain):
    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        x[:, :4] = 0
        score = x.sum((1, 2)) / 8
        return torch.stack([-score, score], 1)


class BehindAutogradsBack(Plain):
    def forward(self, x: Tensor) -> Tensor:
        answer = super().forward(x)
        x.data.zero_()
        return answer


class CutAndAsked(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach().requires_grad_())


class KeepsItsState(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.hidden: Any = None
        self.before = (torch.zeros(1), torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        self.hidden = x.detach().mean(1)
        self.before = (self.hidden, self.hidden)
        self.made_here = self.hidden
        return super().forward(x)


@pytest.mark.parametrize("network", [InPlace(), BehindAutogradsBack()])
def test_a_network_that_writes_to_its_input_is_explained_as_one_that_does_not(network: nn.Module) -> None:
    given = X.copy()
    masks = explain(network, given, progress=False)
    np.testing.assert_array_equal(given, X)
    np.testing.assert_allclose(masks.attributions, explain(Plain(), X, progress=False).attributions, atol=1e-5)


def test_half_precision_inside_forward_is_read_in_full() -> None:
    class Autocast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                answer: Tensor = self.inner(x)
            assert answer.dtype == torch.bfloat16
            return answer

    torch.manual_seed(0)
    network = Autocast()
    masks = explain(network, X, progress=False)
    exact = explain(network.inner, X, progress=False)
    assert np.corrcoef(masks.attributions.ravel(), exact.attributions.ravel())[0, 1] > 0.99


def test_an_output_that_asks_for_gradients_of_something_else_has_none_by_the_input() -> None:
    masks = explain(CutAndAsked(), X, progress=False)
    assert masks.algorithm[0] == "forward passes"


def test_a_state_that_a_network_keeps_in_forward_is_as_before() -> None:
    network = KeepsItsState()
    before = network.before
    explain(network, X, progress=False)
    assert network.hidden is None
    assert network.before is before
    assert not hasattr(network, "made_here")


class WithFeatures:
    """As datasets of MLflow are."""

    features = X


def test_the_address_of_a_model_is_no_model() -> None:
    with pytest.raises(ModelError, match="but got str: load it first"):
        explain("models:/icu/1", X, progress=False)  # type: ignore[arg-type]


def test_zeros_and_ones_may_be_booleans() -> None:
    as_booleans, as_numbers = (explain(Plain(), x, progress=False) for x in (X > 0, (X > 0).astype("float32")))
    np.testing.assert_array_equal(as_booleans.masks, as_numbers.masks)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": X.astype(object)}, "Expected x to hold numbers, but got an array of object"),
        ({"x": X.astype(object)}, ".astype('float32') makes numbers of them"),
        ({"x": Plain()}, "but got Plain: the model comes first, then the array"),
        ({"x": WithFeatures()}, "but got WithFeatures: pass its .features"),
        ({"x": np.full_like(X, np.nan)}, "at least one measured cell an instance, but 3 of 3 have none: all is NaN"),
        ({"x": [[[1.0]], [[1.0], [2.0]]]}, "one shape, but got lists of unequal lengths. Fill them up to one length"),
        ({"channel_names": ["a"]}, "Expected no channel_names, since masks have no names"),
        ({"device": "cuda" if not torch.cuda.is_available() else "mps"}, "Expected a device of this machine"),
        ({"lengths": [1.5, 3, 4]}, "Expected 3 lengths, whole numbers in 1 .. 8, but got [1.5, 3.0, 4.0]"),
        ({"lengths": [True, True, True]}, "Expected 3 lengths, whole numbers"),
        ({"lengths": "all"}, "Expected lengths to hold numbers"),
        ({"observed": np.full_like(X, np.nan)}, "Expected observed to be True or False"),
        ({"observed": np.full_like(X, 0.5)}, "Expected observed to be True or False"),
        ({"reference": "others"}, "Expected reference to hold numbers"),
    ],
)
def test_what_is_no_number_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        explain(Plain(), given.pop("x", X), progress=False, **given)


def test_zeros_and_ones_for_probabilities_are_told(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr("dynamask_mlflow.masks.black_box._said", set())
    explain(lambda x: (x[:, 4:].mean((1, 2)) > 0).float()[:, None], X, progress=False)
    assert "the model answers with 0 and 1 alone" in caplog.text
