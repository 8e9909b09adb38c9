"""One score a cell holds a soft mask of every area."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamask_mlflow.masks.soft_masks import mask_at, score_gradient


@given(seed=st.integers(0, 10_000), area=st.floats(0.02, 0.98), temperature=st.sampled_from([1.0, 0.3, 0.05]))
@settings(max_examples=40, deadline=None)
def test_a_mask_has_its_area_to_about_one_cell(seed: int, area: float, temperature: float) -> None:
    scores = torch.randn(2, 12, 5, generator=torch.Generator().manual_seed(seed))
    mask = mask_at(scores, torch.full((2,), area), temperature)
    torch.testing.assert_close(mask.mean((1, 2)), torch.full((2,), area), atol=2e-2, rtol=0)


@given(seed=st.integers(0, 10_000), small=st.floats(0.05, 0.5), factor=st.floats(1.05, 1.9))
@settings(max_examples=40, deadline=None)
def test_masks_of_growing_area_are_nested(seed: int, small: float, factor: float) -> None:
    scores = torch.randn(1, 12, 5, generator=torch.Generator().manual_seed(seed))
    inner = mask_at(scores, torch.tensor([small]), 0.05)
    outer = mask_at(scores, torch.tensor([small * factor]), 0.05)
    assert (outer >= inner - 1e-3).all()


def test_equal_scores_get_equal_shares() -> None:
    mask = mask_at(torch.zeros(1, 4, 5), torch.tensor([0.3]), 0.05)
    torch.testing.assert_close(mask, torch.full((1, 4, 5), 0.3), atol=1e-4, rtol=0)


def test_missing_cells_are_masked_and_do_not_count() -> None:
    scores = torch.randn(1, 10, 2, generator=torch.Generator().manual_seed(0))
    exists = torch.ones(1, 10, 2, dtype=torch.bool)
    exists[:, 5:] = False
    scores[:, 5:] += 100
    mask = mask_at(scores, torch.tensor([0.2]), 0.05, exists)
    assert (mask[~exists] == 0).all()
    assert mask.sum().item() == pytest.approx(2, abs=0.02)


@given(seed=st.integers(0, 10_000), area=st.floats(0.1, 0.6), temperature=st.sampled_from([1.0, 0.4]))
@settings(max_examples=8, deadline=None)
def test_the_gradient_by_the_scores_is_the_derivative_with_the_area_held(
    seed: int, area: float, temperature: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(1, 4, 3, generator=generator, dtype=torch.float64)
    by_mask = torch.randn(1, 4, 3, generator=generator, dtype=torch.float64)

    def exact(z: torch.Tensor) -> torch.Tensor:
        low, high = z.min() - 20, z.max() + 20
        for _ in range(80):
            middle = (low + high) / 2
            too_large = torch.sigmoid((z - middle) / temperature).mean() > area
            low, high = torch.where(too_large, middle, low), torch.where(too_large, high, middle)
        return torch.sigmoid((z - low) / temperature)

    numeric = torch.zeros_like(scores)
    for cell in range(12):
        step = torch.zeros_like(scores)
        step.view(-1)[cell] = 1e-5
        numeric.view(-1)[cell] = ((exact(scores + step) - exact(scores - step)) * by_mask).sum() / 2e-5
    got = score_gradient(by_mask, exact(scores), temperature)
    torch.testing.assert_close(got, numeric, atol=1e-5, rtol=1e-4)


def test_what_is_common_to_all_cells_moves_no_score() -> None:
    mask = torch.rand(2, 5, 3, generator=torch.Generator().manual_seed(0))
    assert (score_gradient(torch.ones_like(mask), mask, 0.3).abs() < 1e-5).all()
