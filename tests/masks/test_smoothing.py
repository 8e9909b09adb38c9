"""Averages along time, and how well neighbours tell a cell."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamask_mlflow.masks.smoothing import explained_by_neighbours, persists_in_time, smooth_in_time


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


def test_neighbours_explain_nothing_of_single_cells_and_nearly_all_of_a_long_event() -> None:
    widths = (1.0, 2.0, 4.0)
    single, event = torch.zeros(1, 60, 2), torch.zeros(1, 60, 2)
    single[0, [7, 21, 40], [0, 1, 0]] = 1
    event[0, 20:44, 0] = torch.sin(torch.linspace(0, torch.pi, 24))
    assert (explained_by_neighbours(single, widths) == 0).all()
    assert explained_by_neighbours(event, widths)[0].item() > 0.95


def test_the_width_that_suits_an_event_explains_it_best() -> None:
    noisy = torch.randn(1, 200, 1, generator=torch.Generator().manual_seed(0)) * 0.3
    noisy[0, 80:120] += 1
    shares = explained_by_neighbours(noisy, (1.0, 4.0, 30.0))[:, 0]
    assert shares.argmax().item() == 1


@given(seed=st.integers(0, 10_000), holes=st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_share_that_neighbours_explain_lies_between_zero_and_one(seed: int, holes: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(2, 17, 3, generator=generator)
    exists = torch.rand(2, 17, 3, generator=generator) > 0.4 if holes else None
    shares = explained_by_neighbours(values, (1.0, 8.0), exists)
    assert shares.shape == (2, 2)
    assert ((shares >= 0) & (shares <= 1)).all()


def test_what_neighbours_explain_is_judged_on_cells_that_exist() -> None:
    event = torch.zeros(1, 60, 1)
    event[0, 10:30, 0] = torch.sin(torch.linspace(0, torch.pi, 20))
    noisy = event.clone()
    noisy[0, 40:] = torch.randn(20, 1, generator=torch.Generator().manual_seed(0)) * 5
    exists = (torch.arange(60) < 40)[None, :, None].expand_as(event)
    torch.testing.assert_close(
        explained_by_neighbours(noisy, (1.0,), exists), explained_by_neighbours(event, (1.0,), exists)
    )
    assert explained_by_neighbours(noisy, (1.0,)) < 0.3


def test_a_constant_has_nothing_to_explain() -> None:
    assert torch.isfinite(explained_by_neighbours(torch.ones(2, 10, 3), (1.0, 2.0))).all()
    assert torch.isfinite(explained_by_neighbours(torch.zeros(2, 1, 3), (1.0, 2.0))).all()
