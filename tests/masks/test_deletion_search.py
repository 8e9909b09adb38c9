"""Which cells, removed together, turn the model's own answer."""

import numpy as np
import pytest
import torch
from departures import departure_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from white_boxes import CHANNELS, STEPS, gaussian, risk_below_one_half, two_classes

from dynamask_mlflow import explain
from dynamask_mlflow.masks.deletion_search import answer_departure, deletion_scores, in_the_order_of, led_by
from dynamask_mlflow.masks.ranking import top_cells


def weighted(x: Tensor) -> Tensor:
    """Cell (3, 0) speaks for class 1, cell (7, 1) against it."""
    return two_classes(4 * x[:, 3, 0] - 2 * x[:, 7, 1])


def two_cells(number: int = 4) -> Tensor:
    x = 0.1 * gaussian(number, 12, 3, seed=1)
    x[:, 3, 0], x[:, 7, 1] = 2.0, 1.0
    return x


def crossed(x: Tensor) -> Tensor:
    """The best few cells to remove are not the best many: pairs that only count together."""
    return two_classes(1.2 * x[:, :4, 0].sum(1) + (x[:, :, 1] * x[:, :, 2]).sum(1))


def test_the_search_turns_more_than_the_gradients_it_starts_from() -> None:
    x = gaussian(6, STEPS, CHANNELS, seed=2) + 0.5
    answer, _ = answer_departure(departure_of(crossed, x))
    start = answer.gradient_under(torch.full_like(x, 0.5))
    found = deletion_scores(answer, start, 14, lambda: None)

    def left(scores: Tensor) -> Tensor:
        return torch.stack([answer.score_under(1 - top_cells(scores, share)) for share in (0.05, 0.1, 0.2)])

    assert (left(found) <= left(start) + 1e-5).all()
    assert (left(found) < left(start) - 0.01).any()


def test_below_one_half_the_answer_is_against_the_risk() -> None:
    nature = risk_below_one_half()
    departure = departure_of(nature.model, nature.x)
    answer, _ = answer_departure(departure)
    assert (departure.direction == 1).all()
    assert (answer.direction == -1).all()
    torch.testing.assert_close(answer.score, -departure.score)
    torch.testing.assert_close(answer.baseline_scores, -departure.baseline_scores[:1])
    masks = nature.explained()
    # What keeps the risk low goes first, the danger last.
    assert (masks.deletion_ranking[nature.truth] < 0).all()


def test_a_handful_leads_only_where_it_turns_the_answer_sooner() -> None:
    x = two_cells().repeat(1, 9, 3)
    answer, _ = answer_departure(departure_of(weighted, x))
    truth, other = torch.zeros_like(x), torch.rand(x.shape, generator=torch.Generator().manual_seed(3))
    truth[:, 3, 0], other[:, 3, 0] = 1.0, 0.0
    led = led_by(answer, truth, other)
    assert (led.flatten(1).argmax(1) == 3 * x.shape[2]).all()
    torch.testing.assert_close(led_by(answer, other, truth), truth)


def test_what_speaks_against_is_removed_last_and_moves_the_answer_among_the_first() -> None:
    masks = explain(weighted, two_cells(), progress=False)
    assert masks.deletion_ranking is masks.deletion_scores
    removal = masks.deletion_ranking.reshape(len(masks), -1)
    assert (removal.argmax(1) == 9).all()
    assert (removal.argmin(1) == 22).all()
    change = masks.change_ranking.reshape(len(masks), -1)
    assert (change.argmax(1) == 9).all()
    assert masks.binary[:, 3, 0].all()


def test_contributions_to_the_answer_are_those_under_the_operator_that_removes_cells() -> None:
    x = two_cells()
    masks = explain(weighted, x, progress=False)
    mean = x.mean(1, keepdim=True)
    np.testing.assert_allclose(masks.answer_attributions[:, 3, 0], 4 * (x - mean)[:, 3, 0], rtol=1e-4)
    np.testing.assert_allclose(masks.answer_attributions[:, 7, 1], -2 * (x - mean)[:, 7, 1], rtol=1e-4)
    for one, other in zip(masks.answer_attributions, masks.deletion_scores, strict=True):
        np.testing.assert_array_equal(np.sort(one, axis=None), np.sort(other, axis=None))
    # Below one half the answer is "no", and the danger speaks against it.
    nature = risk_below_one_half()
    assert (nature.explained().answer_attributions[nature.truth] < 0).all()


def test_a_first_operator_that_fails_does_not_drive_the_search() -> None:
    x = two_cells()

    def infers_padding(z: Tensor) -> Tensor:
        """NaN where everything is zero."""
        return weighted(z) / (z != 0).any(-1).any(1, keepdim=True)

    with_failing = explain(infers_padding, x, operators=["zero", "time_mean"], progress=False)
    alone = explain(infers_padding, x, operators=["time_mean"], progress=False)
    assert with_failing.diagnostics["failed/zero"].all()
    for name in ("answer_attributions", "deletion_scores"):
        np.testing.assert_allclose(getattr(with_failing, name), getattr(alone, name), rtol=1e-4, atol=1e-6)


@given(seed=st.integers(0, 10_000), holes=st.booleans())
@settings(max_examples=30, deadline=None)
def test_values_follow_the_scores_and_zeros_stay(seed: int, holes: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    values, scores = torch.randn(2, 5, 3, generator=generator), torch.randn(2, 5, 3, generator=generator)
    values[:, 0] = 0
    exists = torch.rand(2, 5, 3, generator=generator) > 0.3 if holes else None
    if exists is not None:
        values = values * exists
    handed = in_the_order_of(values, scores, exists)
    assert (handed[:, 0] == 0).all()
    for row in range(2):
        moved = values[row] != 0
        along = handed[row][moved][scores[row][moved].argsort()]
        assert (along.diff() >= 0).all()


@pytest.mark.parametrize("fast", [True, False])
def test_the_ranking_of_deletion_turns_the_answer_sooner_than_chance(fast: bool) -> None:
    x = gaussian(6, STEPS, CHANNELS, seed=2) + 0.5
    masks = explain(crossed, x, fast=fast, progress=False)
    answer, _ = answer_departure(departure_of(crossed, x))
    chance = torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
    found, random = (
        answer.score_under(1 - top_cells(scores, 0.1)) for scores in (torch.from_numpy(masks.deletion_ranking), chance)
    )
    assert (found < random).all()
