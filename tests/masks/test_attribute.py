"""The interface of captum: the same call, the same shapes, the same completeness as its Integrated Gradients."""

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients
from torch import Tensor, nn

from dynamask_mlflow import DynamicMask, explain

X = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0))


class TwoSums(nn.Module):
    """Outputs (B, 2): the last value of channel 0, and the mean of channel 1."""

    def forward(self, x: Tensor, factor: float = 1.0) -> Tensor:
        return factor * torch.stack([x[:, -1, 0], x[:, :, 1].mean(1)], 1)


def test_captums_method_and_ours_are_called_alike_and_agree_on_a_linear_model() -> None:
    baseline = torch.zeros_like(X)
    theirs, _ = IntegratedGradients(TwoSums()).attribute(X, baseline, target=1, return_convergence_delta=True)
    ours, delta = DynamicMask(TwoSums()).attribute(X, torch.zeros(6, 3), target=1, return_convergence_delta=True)
    torch.testing.assert_close(ours, theirs.to(ours), atol=1e-4, rtol=1e-4)
    assert delta.abs().max() < 1e-4


def test_a_target_for_each_instance() -> None:
    method = DynamicMask(TwoSums())
    mixed = method.attribute(X, target=torch.tensor([0, 1, 1, 0]))
    first, second = method.attribute(X, target=0), method.attribute(X, target=[1, 1, 1, 1])
    torch.testing.assert_close(mixed[[0, 3]], first[[0, 3]])
    torch.testing.assert_close(mixed[[1, 2]], second[[1, 2]])


def test_tuples_of_inputs_and_further_arguments() -> None:
    (one,) = DynamicMask(TwoSums()).attribute((X,), target=1, additional_forward_args=2.0)
    torch.testing.assert_close(one, 2 * DynamicMask(TwoSums()).attribute(X, target=1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"inputs": (X, X), "target": 0}, "Expected one tensor of inputs"),
        ({"inputs": X}, "Expected a target with 1 positions for an output of shape"),
        ({"inputs": X, "target": [0, 1]}, "one for each of 4 instances, but got 2"),
        ({"inputs": X, "target": 0, "additional_forward_args": torch.ones(4)}, "the same for every instance"),
    ],
)
def test_wrong_calls_say_what_was_expected(call: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DynamicMask(TwoSums()).attribute(**call)  # type: ignore[arg-type]


def test_an_explanation_for_shap_needs_shap_and_attributions() -> None:
    masks = explain(TwoSums(), X, task="regression", target="output:0", progress=False)
    try:
        import shap
    except ImportError:
        with pytest.raises(ImportError, match="pip install shap"):
            masks.to_shap()
    else:
        made = masks.to_shap(X.numpy(), ["a", "b", "c"])
        assert isinstance(made, shap.Explanation)
        total = made.base_values + made.values.sum(axis=(1, 2))
        np.testing.assert_allclose(total, X[:, -1, 0], atol=1e-4)
    with pytest.raises(ValueError, match="Expected masks with attributions"):
        explain(TwoSums(), X, task="regression", method="random", progress=False).to_shap()
