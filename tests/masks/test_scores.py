"""One score a cell holds a mask for every area."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamask_mlflow.masks.area import (
    best_area,
    extremal_area,
    falling_price,
    knee_area,
    thrifty_area,
    window_around,
)
from dynamask_mlflow.masks.scores import Order, entry_order, mask_at, persists_in_time, smooth_in_time, top_cells


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
    assert (entry_order(scores, exists)[~exists] == 0).all()


def test_the_order_is_one_minus_the_area_at_which_a_cell_enters() -> None:
    scores = torch.tensor([[[3.0, 1.0], [2.0, 1.0]]])
    assert entry_order(scores).tolist() == [[[0.875, 0.25], [0.625, 0.25]]]


def test_smoothing_keeps_constants_and_spreads_a_peak_over_time_only() -> None:
    peak = torch.zeros(1, 11, 2)
    peak[0, 5, 0] = 1
    spread = smooth_in_time(peak, 1.0)
    assert spread[0, 4, 0] == spread[0, 6, 0] > 0
    assert (spread[0, :, 1] == 0).all()
    torch.testing.assert_close(smooth_in_time(torch.ones(1, 11, 2), 2.0), torch.ones(1, 11, 2))
    assert smooth_in_time(peak, 0.0) is peak


def test_smoothing_ignores_missing_cells() -> None:
    values, exists = torch.ones(1, 6, 1), torch.ones(1, 6, 1, dtype=torch.bool)
    values[0, 3:], exists[0, 3:] = 1e6, False
    torch.testing.assert_close(smooth_in_time(values, 1.0, exists)[0, :3], torch.ones(3, 1))


def test_rules_of_area() -> None:
    areas = torch.tensor([[0.1, 0.2, 0.4, 0.8]])
    distances = torch.tensor([[0.9, 0.3, 0.1, 0.1]])
    assert best_area(areas, distances).item() == pytest.approx(0.4)
    assert thrifty_area(areas, distances)[0].item() == pytest.approx(0.2)
    area, missed = extremal_area(areas, distances, 0.35)
    assert (area.item(), missed.item()) == (pytest.approx(0.2), False)
    area, missed = extremal_area(areas, distances, 0.05)
    assert (area.item(), missed.item()) == (pytest.approx(0.8), True)


def test_the_thrifty_area_zooms_in_on_the_knee_of_the_curve() -> None:
    areas = torch.tensor([[0.01, 0.1, 1.0]])

    def curve(a: torch.Tensor) -> torch.Tensor:
        return (1 - a / 0.03).clamp(min=0)

    area, _ = thrifty_area(areas, curve(areas), 1.0, curve, zooms=8)
    assert area.item() == pytest.approx(0.03, rel=0.05)


def test_the_knee_is_found_by_looking_towards_the_cheaper_side() -> None:
    looked: list[float] = []

    def cost(a: torch.Tensor) -> torch.Tensor:
        return (a / 0.03).log().abs()

    def counted(a: torch.Tensor) -> torch.Tensor:
        looked.extend(a.flatten().tolist())
        return cost(a)

    areas = torch.tensor([[0.0064, 0.016, 0.04, 0.1]])
    assert knee_area(areas, cost(areas), counted, looks=0).item() == pytest.approx(0.04)
    area = knee_area(areas, cost(areas), counted, looks=4).item()
    assert len(looked) == 4
    assert looked[0] == pytest.approx(0.04 / 2.5**0.5)
    assert area == pytest.approx(0.03, rel=0.1)
    # At the end of the grid there is but one side to look at.
    looked.clear()
    knee_area(torch.tensor([[0.1, 0.2]]), torch.tensor([[0.0, 1.0]]), counted, looks=1)
    assert looked == [pytest.approx(0.1 * 2**0.5)]


def test_a_window_of_areas_stays_on_the_grid() -> None:
    areas = torch.arange(6.0).expand(3, -1)
    costs = torch.tensor([[0.0, 1, 1, 1, 1, 1], [1, 1, 0.0, 1, 1, 1], [1, 1, 1, 1, 1, 0.0]])
    window = window_around(areas, costs, before=1, after=2)
    assert window.tolist() == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]]
    assert window_around(areas[:, :2], costs[:, :2], before=1, after=2).tolist() == [[0, 1]] * 3


@given(seed=st.integers(0, 10_000), area=st.floats(0.01, 1.0), holes=st.booleans())
@settings(max_examples=40, deadline=None)
def test_top_cells_are_those_of_the_order(seed: int, area: float, holes: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, 11, 4, generator=generator)
    exists = torch.rand(3, 11, 4, generator=generator) > 0.3 if holes else None
    order = Order.of(scores, exists)
    whole = (area * order.number - 1e-4).ceil().clamp(min=1) / order.number
    torch.testing.assert_close(top_cells(scores, area - 1e-6, exists), order.mask(whole), atol=1e-4, rtol=0)


def test_cells_that_tie_with_the_last_of_the_top_come_too() -> None:
    scores = torch.tensor([[[3.0, 1.0], [1.0, 0.0]]])
    assert top_cells(scores, 0.5).tolist() == [[[1.0, 1.0], [1.0, 0.0]]]


@given(seed=st.integers(0, 10_000), area=st.floats(0.02, 0.98))
@settings(max_examples=40, deadline=None)
def test_an_order_gives_the_exact_mask_of_every_area(seed: int, area: float) -> None:
    scores = torch.randint(0, 9, (2, 12, 5), generator=torch.Generator().manual_seed(seed)).float()
    mask = Order.of(scores).mask(torch.full((2,), area))
    torch.testing.assert_close(mask.mean((1, 2)), torch.full((2,), area), atol=1e-5, rtol=0)
    best = scores[mask > 0].amin() if bool((mask > 0).any()) else torch.tensor(0.0)
    assert (mask[scores > scores.amax() - 1e-6] > 0).all() or best > 0
    for value in scores.unique():
        for row in range(2):
            shares = mask[row][scores[row] == value]
            assert len(shares) == 0 or (shares == shares[0]).all()


def test_an_order_ignores_missing_cells() -> None:
    scores = torch.tensor([[[9.0, 1.0], [2.0, 3.0]]])
    exists = torch.tensor([[[False, True], [True, True]]])
    assert Order.of(scores, exists).mask(torch.tensor([1 / 3])).tolist() == [[[0.0, 0.0], [0.0, 1.0]]]


@pytest.mark.parametrize("scale", [0.06, 0.15])
def test_the_falling_price_is_continuous_and_never_below_twice_the_area(scale: float) -> None:
    areas = torch.linspace(0, 0.9, 2001, dtype=torch.float64)
    price = falling_price(areas, scale)
    slope = price.diff() / areas.diff()
    assert price[0] == 0
    assert (slope[1:] <= slope[:-1] + 1e-6).all()
    torch.testing.assert_close(slope[-1], torch.tensor(2.0, dtype=torch.float64))
    assert slope[0] > 10


def test_neighbours_foretell_what_persists_and_not_what_comes_and_goes() -> None:
    draws = torch.randn(3, 400, 2, generator=torch.Generator().manual_seed(0))
    assert not persists_in_time(draws).any()
    assert persists_in_time(smooth_in_time(draws, 3.0)).all()
    alternating = torch.tensor([0.0, 1.0]).repeat(200)[None, :, None]
    assert not persists_in_time(alternating).any()


def test_persistence_is_judged_on_cells_that_exist() -> None:
    draws = torch.randn(2, 60, 2, generator=torch.Generator().manual_seed(0))
    steady = torch.cat([smooth_in_time(draws, 3.0), draws], 1)
    exists = (torch.arange(120) < 60)[None, :, None].expand_as(steady)
    assert not persists_in_time(steady).any()
    assert persists_in_time(steady, exists).all()


def test_the_last_step_is_not_lifted_by_its_high_neighbour_where_the_series_ends_in_nothing() -> None:
    scores = torch.zeros(1, 30, 1)
    scores[:, 26:29] = 1
    lifted, level = (smooth_in_time(scores, 1.5, ends=ends)[0, :, 0] for ends in (False, True))
    assert lifted[29] > 0.9 * lifted[26]
    assert level[29] < 0.7 * level[26:29].min()
    inner = torch.randn(1, 30, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        smooth_in_time(inner, 1.0, ends=True)[:, 5:25], smooth_in_time(inner, 1.0)[:, 5:25], rtol=1e-4, atol=1e-5
    )
