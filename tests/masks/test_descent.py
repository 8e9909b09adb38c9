"""The steps of a fit by descent."""

import pytest
import torch

from dynamask_mlflow.masks.descent import COLD, HOT, Adam, spread_evenly, starting_scores, temperature_at


def test_draws_fill_the_interval_evenly_however_many_there_are() -> None:
    for number in (5, 40, 200):
        draws = sorted(spread_evenly(step) for step in range(number))
        gaps = [b - a for a, b in zip([0.0, *draws], [*draws, 1.0], strict=True)]
        assert max(gaps) < 3 / number
        assert 0 <= draws[0] <= draws[-1] < 1


def test_the_temperature_falls_from_hot_to_cold() -> None:
    assert temperature_at(0, 10) == HOT
    assert temperature_at(10, 10) == pytest.approx(COLD)
    assert temperature_at(5, 10) == pytest.approx((HOT * COLD) ** 0.5)


def test_the_start_keeps_signs_and_zeros_and_has_no_unit() -> None:
    attributions = torch.tensor([[[2.0, -1.0], [0.0, 1.0]]])
    scores = starting_scores(attributions)
    # ln(1 + 2 / 1) / 2 and ln(1 + 1 / 1) / 2, as the mean size is 1.
    expected = torch.tensor([[[3.0, 2.0], [1.0, 2.0]]]).log() / 2 * attributions.sign()
    torch.testing.assert_close(scores, expected)
    torch.testing.assert_close(starting_scores(1000 * attributions), scores)


def test_the_first_step_goes_by_the_learning_rate_whatever_the_size_of_the_gradient() -> None:
    for scale in (1e-6, 1.0, 1e6):
        state = Adam(torch.zeros(1, 2, 1), 0.1, 10)
        state.descend(scale * torch.tensor([[[1.0], [-1.0]]]))
        torch.testing.assert_close(state.scores, torch.tensor([[[-0.1], [0.1]]]), rtol=2e-3, atol=0)


def test_rounding_never_drives_a_cell() -> None:
    state = Adam(torch.zeros(1, 2, 1), 0.1, 10)
    for _ in range(10):
        state.descend(torch.tensor([[[1.0], [1e-9]]]))
    assert state.scores[0, 1].abs() < 1e-3 * state.scores[0, 0].abs()


def test_a_minimum_is_found() -> None:
    goal = torch.tensor([[[0.3], [-0.2]]])
    state = Adam(torch.zeros_like(goal), 0.1, 200)
    for _ in range(200):
        state.descend(state.scores - goal)
    torch.testing.assert_close(state.scores, goal, atol=1e-2, rtol=0)
