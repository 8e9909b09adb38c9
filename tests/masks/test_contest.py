"""Two orderings compared by what their first cells keep and remove."""

import math

import pytest
import torch
from departures import departure_of
from torch import Tensor
from white_boxes import high_segment, latched, spikes

from dynamask_mlflow.masks.contest import (
    LEAD,
    STEEPNESS,
    challenger_weight,
    combined_scores,
    contest_shares,
    contest_sizes,
    hold,
)
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.ranking import Order


def hold_of(departure: Departure, order: Order) -> Tensor:
    return hold(contest_shares(departure, order))


def test_sizes_grow_fourfold_up_to_a_third_of_the_cells() -> None:
    assert contest_sizes(3) == [1]
    assert contest_sizes(12) == [1, 4]
    assert contest_sizes(200) == [1, 4, 16, 64]
    assert contest_sizes(191) == [1, 4, 16]


def sum_of_cells(x: Tensor) -> Tensor:
    return x.sum((1, 2))


def test_the_hold_of_a_small_model_by_hand() -> None:
    """Cells add 4, 3, 2 and 1 of 10. The first keeps, and its removal loses, .4; the first four all: (.4 + 1) / 2."""
    x = torch.zeros(2, 4, 3)
    x[:, 0, 0], x[:, 1, 2], x[:, 2, 0], x[:, 3, 1] = 4.0, 3.0, 2.0, 1.0
    departure = departure_of(sum_of_cells, x, task="regression", operators=("zero",))
    assert hold_of(departure, Order.of(x)).tolist() == pytest.approx([0.7, 0.7])
    # The other way round the first four are cells of no effect, of which there are eight.
    assert hold_of(departure, Order.of(-x)).tolist() == [0, 0]
    # All alike: a twelfth, and a third of them.
    assert hold_of(departure, Order.of(torch.zeros_like(x))).tolist() == pytest.approx([(1 / 12 + 1 / 3) / 2] * 2)


def test_keeping_and_removing_are_both_asked_for() -> None:
    """Either of two cells suffices: one of them keeps everything, and its removal loses nothing."""
    x = torch.zeros(1, 4, 3)
    x[:, 0, 0] = x[:, 3, 1] = 1.0
    departure = departure_of(lambda z: z.amax((1, 2)), x, task="regression", operators=("zero",))
    first, both = torch.zeros_like(x), x.clone()
    first[:, 0, 0] = 1
    # One cell keeps 1 and loses 0. Four cells keep 1 and lose 1, if the second is among them.
    second = first.clone()
    second[:, 3, 1] = 0.5
    assert hold_of(departure, Order.of(second)).item() == pytest.approx((1 + 0 + 1 + 1) / 4)
    # Of two cells that tie each is kept, and removed, by half.
    assert hold_of(departure, Order.of(both)).item() == pytest.approx((0.5 + 0.5 + 1 + 1) / 4)


def test_the_weight_is_a_half_at_the_lead_and_steep_around_it() -> None:
    present = torch.tensor([0.2, 0.2, 0.2])
    weight = challenger_weight(present, present + torch.tensor([LEAD, 0.0, 2 * LEAD]))
    away = 1 / (1 + math.exp(STEEPNESS * LEAD))
    assert weight.tolist() == pytest.approx([0.5, away, 1 - away])


def test_places_are_combined_by_their_weighted_geometric_mean() -> None:
    present, challenger = Order.of(torch.tensor([[[2.0], [1.0]]])), Order.of(torch.tensor([[[1.0], [2.0]]]))
    scores = combined_scores(present, challenger, torch.tensor([0.25]))
    expected = [-(0.75 * math.log(0.25) + 0.25 * math.log(0.75)), -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))]
    assert scores.flatten().tolist() == pytest.approx(expected)
    for weight, order in ((0.0, present), (1.0, challenger)):
        combined = Order.of(combined_scores(present, challenger, torch.tensor([weight])))
        assert torch.equal(combined.above, order.above)


def test_the_truth_holds_more_than_chance_and_more_than_its_opposite() -> None:
    for model, x, truth in ((latched, high_segment(), None), (spikes().model, spikes().x, spikes().truth)):
        cells = torch.zeros_like(x)
        if truth is None:
            cells[:, 12:20, 2] = 1
        else:
            cells = torch.from_numpy(truth).float()
        departure = departure_of(model, x).by_strength()[0]
        chance = torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
        right, random, wrong = (hold_of(departure, Order.of(s)) for s in (cells, chance, -cells))
        assert (right > random + 0.2).all()
        assert (right > wrong + 0.2).all()
        assert ((right >= -1) & (right <= 1)).all()
