"""L_e, L_a and L_c of section 2.3, by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamask_mlflow.masks.objective import Discrepancy, class_margin, size_regulariser, time_regulariser


def test_errors_are_sums_over_times_and_outputs() -> None:
    reference = torch.tensor([[[0.0, 0.0], [math.log(3), 0.0]]])
    outputs = torch.tensor([[[math.log(3), 0.0], [0.0, 0.0]]])
    p = torch.tensor([0.75, 0.25])
    half = torch.tensor([0.5, 0.5])
    expected = {
        "cross_entropy": -(half * p.log()).sum() - (p * half.log()).sum(),
        "log_loss": -p[0].log() - half[0].log(),
        "squared": 2 * (p - half).square().sum(),
        "logit": torch.tensor(2 * 2 * (math.log(3) / 2) ** 2),
        "margin": torch.tensor(math.log(3) ** 2),
    }
    for loss, value in expected.items():
        got = Discrepancy(reference, loss, classification=True)(outputs)
        assert got.shape == (1,)
        assert got.item() == pytest.approx(value.item(), rel=1e-5), loss
    values = Discrepancy(torch.tensor([[[1.0], [2.0]]]), "squared", classification=False)
    assert values(torch.tensor([[[2.0], [4.0]]])).item() == 5


def test_the_margin_is_the_logit_of_the_reference_class_minus_the_best_other() -> None:
    reference = torch.tensor([[[0.0, 3.0, 1.0]]])
    outputs = torch.tensor([[[5.0, 1.0, 2.0]]])
    assert class_margin(outputs, reference).item() == -4


def test_ties_share_the_ones_of_the_size_regulariser_equally() -> None:
    mask = torch.full((1, 2, 2), 0.5)
    value, gradient = size_regulariser(mask, torch.tensor([1.0]))
    assert value.item() == pytest.approx(4 * (0.5 - 0.25) ** 2)
    assert torch.equal(gradient, torch.full((1, 2, 2), 0.5))


def test_the_size_regulariser_is_the_papers_norm_where_no_two_cells_are_equal() -> None:
    mask = torch.tensor([[[0.1, 0.9], [0.4, 0.7]]])
    value, gradient = size_regulariser(mask, torch.tensor([2.0]))
    assert value.item() == pytest.approx(0.1**2 + 0.4**2 + 0.1**2 + 0.3**2)
    torch.testing.assert_close(gradient, 2 * torch.tensor([[[0.1, -0.1], [0.4, -0.3]]]))


def test_missing_cells_have_no_part_in_the_size() -> None:
    mask = torch.tensor([[[0.9, 0.8], [0.0, 0.0]]])
    exists = torch.tensor([[[False, True], [True, True]]])
    value, gradient = size_regulariser(mask, torch.tensor([1.0]), exists)
    assert value.item() == pytest.approx(0.2**2, rel=1e-5)
    assert gradient[0, 0, 0] == 0


@given(st.lists(st.floats(0, 1, width=32), min_size=6, max_size=6))
@settings(max_examples=30, deadline=None)
def test_the_time_regulariser_counts_every_difference(values: list[float]) -> None:
    mask = torch.tensor(values).view(1, 3, 2)
    expected = sum(abs(values[i + 2] - values[i]) for i in range(4))
    value, _ = time_regulariser(mask)
    assert value.item() == pytest.approx(expected, abs=1e-5)


def test_the_time_regularisers_gradient_is_its_derivative() -> None:
    mask = torch.tensor([[[0.1], [0.5], [0.3]]], requires_grad=True)
    value = (mask[:, 1:] - mask[:, :-1]).abs().sum()
    (expected,) = torch.autograd.grad(value, mask)
    torch.testing.assert_close(time_regulariser(mask.detach())[1], expected)
