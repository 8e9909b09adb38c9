"""Coefficients are probabilities: never rising along the ordering, 0 where the model does not read."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from white_boxes import gaussian, spikes, two_classes

from dynamask_mlflow import explain
from dynamask_mlflow.masks.coefficients import WEIGHTS, best_cut, coefficients
from dynamask_mlflow.masks.mask_size import SizeCurves, curve_sizes
from dynamask_mlflow.masks.ranking import Order
from dynamask_mlflow.metrics import entropy


def some_coefficients(seed: int, by_gradients: bool, unread_share: float) -> tuple[Order, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (3, 9, 4)
    order = Order.of(torch.randint(0, 30, shape, generator=generator).float())
    unread = torch.rand(shape, generator=generator) < unread_share
    sizes = curve_sizes(36)
    kept, lost = (torch.rand(len(sizes), 3, generator=generator) for _ in range(2))
    kept[-1] = lost[-1] = 1
    score = torch.rand(shape, generator=generator) * (~unread)
    values = coefficients(order, SizeCurves(tuple(sizes), kept, lost), score, torch.full((3,), by_gradients), unread)
    return order, unread, values


@given(seed=st.integers(0, 10_000), by_gradients=st.booleans(), unread_share=st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=40, deadline=None)
def test_coefficients_are_probabilities_along_the_ordering(seed: int, by_gradients: bool, unread_share: float) -> None:
    order, unread, values = some_coefficients(seed, by_gradients, unread_share)
    assert ((values >= 0) & (values <= 1)).all()
    assert (values[unread] == 0).all()
    for row in range(3):
        read = ~unread[row]
        along = values[row][read][order.above[row][read].argsort(stable=True)]
        assert (along.diff() <= 0).all()


def test_the_coefficient_of_a_cell_by_hand() -> None:
    """The first cell holds more than half and more than .8 of the departure: scores are compared with its own.

    Its logit is intercept + relative score x ln(1) + beyond half x log2(1); that of the second, of half the score, is
    intercept + relative score x ln(1/2) + beyond half x log2(2).
    """
    score = torch.tensor([[[4.0, 2.0], [0.0, 0.0]]])
    order = Order.of(score)
    curves = SizeCurves((1, 4), torch.tensor([[0.9], [1.0]]), torch.tensor([[0.8], [1.0]]))
    values = coefficients(order, curves, score, torch.tensor([True]), score == 0)
    first = 1 / (1 + math.exp(-WEIGHTS.intercept))
    second = 1 / (1 + math.exp(-WEIGHTS.intercept - WEIGHTS.relative_score * math.log(0.5) - WEIGHTS.beyond_half))
    assert values.flatten().tolist() == pytest.approx([first, second, 0, 0], rel=1e-3)


def test_other_orderings_are_trusted_by_rank_alone() -> None:
    score = torch.tensor([[[4.0, 0.1], [3.0, 0.2]]])
    order = Order.of(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    curves = SizeCurves((1, 4), torch.tensor([[0.5], [1.0]]), torch.tensor([[0.5], [1.0]]))
    values = coefficients(order, curves, score, torch.tensor([False]), score < 0).flatten()
    rank = torch.tensor([4.0, 3.0, 2.0, 1.0])
    logit = WEIGHTS.intercept + WEIGHTS.other_ordering + WEIGHTS.beyond_half * rank.log2()
    torch.testing.assert_close(values, torch.sigmoid(logit))


@given(st.lists(st.floats(0, 1, width=32), min_size=6, max_size=6), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_the_cut_is_that_of_greatest_expected_f1(values: list[float], zeros: int) -> None:
    chances = torch.tensor(values)
    chances[:zeros] = 0
    chosen = best_cut(chances.view(1, 3, 2)).flatten() > 0
    total = float(chances.sum())
    expected = [2 * float(chances.sort(descending=True).values[:k].sum()) / (k + total) for k in range(1, 7)]
    if total == 0:
        assert not chosen.any()
        return
    got = 2 * float(chances[chosen].sum()) / (int(chosen.sum()) + total)
    assert got == pytest.approx(max(expected), rel=1e-5)
    assert not chosen[chances == 0].any()
    assert chances[chosen].min() >= chances[~chosen].max() if bool((~chosen).any()) else True


def test_a_certain_cell_is_cut_from_the_uncertain() -> None:
    assert best_cut(torch.tensor([[[0.99, 0.02], [0.01, 0.0]]])).tolist() == [[[1, 0], [0, 0]]]
    # Everything is as likely: all of it, although no cell reaches one half.
    assert best_cut(torch.full((1, 4, 2), 0.3)).all()


def diffuse(x: Tensor) -> Tensor:
    """Every cell of channel 1 counts, some more and some less."""
    return two_classes((x[:, :, 1] * torch.linspace(0.2, 2, x.shape[1])).sum(1))


def test_a_mask_of_a_diffuse_model_has_more_entropy_than_that_of_a_sharp_one() -> None:
    sharp = spikes().explained()
    vague = explain(diffuse, gaussian(6), progress=False)
    doubts = [entropy(masks.masks) / masks.masks.sum((1, 2)) for masks in (sharp, vague)]
    assert doubts[0].max() < 0.4 < 0.8 < doubts[1].min()


def test_a_model_of_one_cell_leaves_next_to_no_doubt() -> None:
    masks = explain(lambda x: two_classes(5 * x[:, 3, 1]), gaussian(6), progress=False)
    assert (masks.binary.sum((1, 2)) == 1).all()
    assert masks.binary[:, 3, 1].all()
    assert (entropy(masks.masks) < 0.2).all()


@pytest.mark.parametrize("steps", [20, 60, 300])
def test_one_cell_is_a_mask_of_one_cell_however_long_the_series(steps: int) -> None:
    def highest(x: Tensor) -> Tensor:
        return 3 * x[:, :, :2].amax(1)

    x = 0.4 * gaussian(6, steps, 5, seed=4)
    x[torch.arange(6), torch.arange(6) * steps // 7, torch.arange(6) % 2] = 5.0
    masks = explain(highest, x, progress=False)
    np.testing.assert_array_equal(masks.binary, x.numpy() == 5.0)
    np.testing.assert_array_equal(masks.masks > 0.5, x.numpy() == 5.0)
    assert masks.area.tolist() == pytest.approx([1 / (steps * 5)] * 6)
