"""Insertion and deletion curves of an ordering."""

import pytest
import torch
from departures import departure_of
from torch import Tensor
from white_boxes import plateau, spikes

from dynamask_mlflow.masks.contest import contest_shares
from dynamask_mlflow.masks.mask_size import SizeCurves, curve_sizes, size_curves
from dynamask_mlflow.masks.ranking import Order


def sum_of_cells(x: Tensor) -> Tensor:
    return x.sum((1, 2))


def test_sizes_are_counted_in_cells() -> None:
    assert curve_sizes(12) == [1, 4, 12]
    assert curve_sizes(64) == [1, 4, 16, 64]
    assert curve_sizes(1) == [1]
    assert len(curve_sizes(100_000)) == 10


def test_the_curves_of_a_small_model_by_hand() -> None:
    """Cells add 4, 3, 2 and 1 of 10: the first keeps .4, four keep everything, and so with removing."""
    x = torch.zeros(1, 4, 3)
    x[:, 0, 0], x[:, 1, 2], x[:, 2, 0], x[:, 3, 1] = 4.0, 3.0, 2.0, 1.0
    departure = departure_of(sum_of_cells, x, task="regression", operators=("zero",))
    curves = size_curves(departure.by_strength(), Order.of(x))
    assert curves.sizes == (1, 4, 12)
    assert curves.kept[:, 0].tolist() == pytest.approx([0.4, 1, 1])
    assert curves.lost[:, 0].tolist() == pytest.approx([0.4, 1, 1])


def test_what_a_contest_has_measured_is_not_asked_again() -> None:
    nature = spikes()
    departures = departure_of(nature.model, nature.x).by_strength()
    order = Order.of(torch.rand(nature.x.shape, generator=torch.Generator().manual_seed(0)))
    alone, reused = size_curves(departures, order), size_curves(departures, order, contest_shares(departures[0], order))
    assert torch.equal(alone.kept, reused.kept)
    assert torch.equal(alone.lost, reused.lost)
    known = torch.full((2, 1, len(nature.x)), 0.5)
    strongest = size_curves(departures[:1], order, known)
    assert (strongest.kept[0] == 0.5).all()
    assert torch.equal(strongest.kept[1:], size_curves(departures[:1], order).kept[1:])


def test_between_sizes_the_curve_is_linear_in_the_logarithm() -> None:
    sizes = torch.tensor([0.1, 1.0, 2.0, 4.0, 8.0, 16.0, 99.0])
    curves = SizeCurves((1, 4, 16), torch.tensor([[0.2], [0.6], [1.0]]).expand(3, 7), torch.zeros(3, 7))
    assert curves.kept_at(sizes).tolist() == pytest.approx([0.2, 0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_a_baseline_that_leaves_the_answer_standing_has_no_say() -> None:
    nature = plateau()
    departures = departure_of(nature.model, nature.x).by_strength()
    order = Order.of(torch.from_numpy(nature.truth).float())
    both, strongest = size_curves(departures, order), size_curves(departures[:1], order)
    assert (both.kept - strongest.kept).abs().max() < 0.05
    assert ((both.kept >= 0) & (both.kept <= 1)).all()


def test_the_order_of_the_truth_rises_sooner_than_that_of_chance() -> None:
    nature = spikes()
    departures = departure_of(nature.model, nature.x).by_strength()
    chance = torch.rand(nature.x.shape, generator=torch.Generator().manual_seed(0))
    right, random = (
        size_curves(departures, Order.of(s)) for s in (torch.from_numpy(nature.truth) + 0.1 * chance, chance)
    )
    assert (right.kept[2] == 1).all()
    assert (right.kept[:-1].sum(0) > random.kept[:-1].sum(0) + 0.5).all()
    assert (right.kept[-1] == 1).all()
