"""Error bars: how far coefficients move under one baseline alone."""

import numpy as np
import pytest
import torch
from torch import Tensor
from white_boxes import gaussian, off_zero, plateau, two_classes

from dynamask_mlflow import explain
from dynamask_mlflow.masks.path_attribution import PathAttributions
from dynamask_mlflow.masks.ranking import Order, handed_out
from dynamask_mlflow.masks.spread import spread_over_baselines


def paths_of(by_operator: Tensor, weights: Tensor, missed: float = 0.0) -> PathAttributions:
    """Attributions under two baselines, whose gradients never change their sign."""
    nothing = torch.zeros(by_operator.shape[1])
    return PathAttributions(
        (weights[:, :, None, None] * by_operator).sum(0),
        nothing + missed,
        nothing,
        by_operator,
        by_operator,
        by_operator.abs(),
        torch.ones_like(weights) > 0,
        weights,
    )


def test_baselines_that_agree_leave_no_spread() -> None:
    attributions = gaussian(2, 6, 3).square()
    by_operator = torch.stack([attributions, attributions])
    coefficients = attributions / attributions.amax()
    paths = paths_of(by_operator, torch.full((2, 2), 0.5))
    ranked = handed_out(coefficients, Order.of(paths.scores(None)))
    cells, channels = spread_over_baselines(ranked, paths, None)
    assert (cells == 0).all()
    assert (channels == 0).all()


def test_baselines_that_agree_on_the_order_alone_move_the_contributions() -> None:
    attributions = gaussian(2, 6, 3).square()
    paths = paths_of(torch.stack([attributions, 3 * attributions]), torch.full((2, 2), 0.5))
    ranked = handed_out(attributions / attributions.amax(), Order.of(paths.scores(None)))
    cells, channels = spread_over_baselines(ranked, paths, None)
    assert (cells == 0).all()
    torch.testing.assert_close(channels, attributions.sum(1))  # 1 and 3 are 1 away from their mean


def test_the_spread_by_hand() -> None:
    """A quarter of the weight says that the other of two cells has the coefficient .8.

    The coefficients move by .8 each: sqrt(.25 x .64) = .4. Contributions are (1, 0) and (0, 1), their mean (.75, .25):
    sqrt(.75 x .25^2 + .25 x .75^2) = sqrt(.1875). Shares of channels move from (1, 0) to (0, 1), by sqrt(.25), and hand
    out what the integrals missed: with 2 missed, sqrt(.1875 + 4 x .25).
    """
    coefficients = torch.tensor([[[0.8, 0.0]]])
    same, other = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])
    weights = torch.tensor([[0.75], [0.25]])
    for missed, expected in ((0.0, 0.1875**0.5), (2.0, 1.1875**0.5)):
        paths = paths_of(torch.stack([same, other]), weights, missed)
        cells, channels = spread_over_baselines(coefficients, paths, None)
        assert cells.flatten().tolist() == pytest.approx([0.4, 0.4])
        assert channels.flatten().tolist() == pytest.approx([expected, expected])


def test_spread_is_given_by_default_and_not_in_a_hurry() -> None:
    nature = off_zero()
    masks = nature.explained()
    assert masks.spread.shape == masks.masks.shape
    assert masks.channel_spread.shape == (len(masks), masks.masks.shape[2])
    assert ((masks.spread >= 0) & (masks.spread <= 1)).all()
    hasty = nature.explained(fast=True)
    assert hasty.spread is None
    assert hasty.channel_spread is None


def test_where_baselines_disagree_the_spread_is_wider() -> None:
    sure = explain(lambda x: two_classes(5 * x[:, 3, 1]), gaussian(6, 12, 3), progress=False)
    unsure = plateau().explained()

    def relative(masks) -> np.ndarray:  # type: ignore[no-untyped-def]
        return np.sqrt(np.square(masks.spread).sum((1, 2)) / np.square(masks.masks).sum((1, 2)))

    assert relative(sure).max() < 1e-6
    assert relative(unsure).min() > 0.01


def test_nothing_to_explain_has_no_spread() -> None:
    masks = explain(lambda x: 0 * x.sum((1, 2)) + 1, gaussian(2), task="regression", progress=False)
    assert (masks.spread == 0).all()
    assert (masks.channel_spread == 0).all()
