"""Scores from attributions: single cells as they are, long events as a whole, either sign."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dynamask_mlflow.masks import gradient_scores as module
from dynamask_mlflow.masks.gradient_scores import AGAINST, OWN_WEIGHT


def gradient_scores(attributions: Tensor, exists: Tensor | None = None, variation: Tensor | None = None) -> Tensor:
    """Under one baseline."""
    one = torch.ones(1, len(attributions))
    size = attributions.abs() if variation is None else variation
    return module.gradient_scores(attributions[None], size[None], one, exists)


def test_single_cells_are_not_smoothed() -> None:
    """Neighbours explain nothing of them: twice the weight of the cell itself times its root remains."""
    attributions = torch.zeros(1, 30, 3)
    attributions[0, [4, 15, 26], [0, 1, 2]] = torch.tensor([4.0, 9.0, -1.0])
    scores = gradient_scores(attributions)
    expected = torch.zeros_like(attributions)
    expected[0, [4, 15, 26], [0, 1, 2]] = 2 * OWN_WEIGHT * torch.tensor([2.0, 3.0, AGAINST])
    torch.testing.assert_close(scores, expected)


def test_the_gap_within_a_long_event_is_filled() -> None:
    attributions = torch.zeros(1, 40, 2)
    attributions[0, 10:24, 0] = 1
    attributions[0, 16, 0] = 0
    scores = gradient_scores(attributions)
    assert scores[0, 16, 0] > scores[0, :8, 0].max()
    assert scores[0, 16, 0] > 0.5 * scores[0, 17, 0]
    assert (scores[0, :, 1] == 0).all()


def test_cells_that_speak_against_the_departure_count_by_half() -> None:
    event = torch.zeros(1, 40, 1)
    event[0, 12:20] = 1
    torch.testing.assert_close(gradient_scores(-event), AGAINST * gradient_scores(event))


def test_a_swing_to_both_sides_is_not_lost() -> None:
    """A ramp's attributions change their sign halfway: their smoothed sum is near 0, their smoothed size is not."""
    ramp = torch.zeros(1, 60, 1)
    ramp[0, 20:40, 0] = torch.linspace(-1, 1, 20)
    scores = gradient_scores(ramp)[0, :, 0]
    assert scores[22:38].min() > scores[:16].max()
    assert scores[29:31].min() > 0.2 * scores.max()


@pytest.mark.parametrize("ends", [4, 12])
def test_padding_has_no_say(ends: int) -> None:
    attributions = torch.randn(2, 16, 3, generator=torch.Generator().manual_seed(0))
    exists = (torch.arange(16) < ends)[None, :, None].expand_as(attributions)
    poisoned = torch.where(exists, attributions, torch.full_like(attributions, 1e6))
    torch.testing.assert_close(
        gradient_scores(poisoned, exists)[exists],
        gradient_scores(torch.where(exists, attributions, 0.0), exists)[exists],
    )


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-3, 1e3]))
@settings(max_examples=20, deadline=None)
def test_scores_are_never_negative_and_their_order_has_no_unit(seed: int, scale: float) -> None:
    attributions = torch.randn(2, 20, 3, generator=torch.Generator().manual_seed(seed)) ** 3
    scores, scaled = gradient_scores(attributions), gradient_scores(scale * attributions)
    assert (scores >= 0).all()
    torch.testing.assert_close(scaled, scale**0.5 * scores, rtol=1e-3, atol=1e-6)


def test_a_cell_whose_effect_cancels_along_the_way_still_counts() -> None:
    """For and against by 2 each on the way: nothing in the sum, a root of 2 in the score."""
    attributions, variation = torch.zeros(1, 30, 2), torch.zeros(1, 30, 2)
    attributions[0, 5, 0], variation[0, 5, 0] = 1.0, 1.0
    variation[0, 20, 1] = 4.0
    scores = gradient_scores(attributions, variation=variation)
    assert scores[0, 5, 0].item() == pytest.approx(2 * OWN_WEIGHT)
    assert scores[0, 20, 1].item() == pytest.approx(2 * OWN_WEIGHT * 2**0.5)


def test_a_cell_on_which_baselines_agree_counts_more_than_one_that_a_single_baseline_makes_much_of() -> None:
    attributions = torch.zeros(2, 1, 30, 2)
    attributions[:, 0, 5, 0] = 1.0
    attributions[0, 0, 20, 1] = 2.0
    scores = module.gradient_scores(attributions, attributions.abs(), torch.full((2, 1), 0.5))
    assert scores[0, 5, 0] > 1.2 * scores[0, 20, 1]
