"""From scores to places, whole cells, and the mask of every size."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamask_mlflow.masks.ranking import Order, entry_order, handed_out, top_cells


def test_the_order_is_one_minus_the_area_at_which_a_cell_enters() -> None:
    scores = torch.tensor([[[3.0, 1.0], [2.0, 1.0]]])
    assert entry_order(scores).tolist() == [[[0.875, 0.25], [0.625, 0.25]]]


def test_missing_cells_enter_last() -> None:
    scores = torch.randn(1, 10, 2, generator=torch.Generator().manual_seed(0))
    exists = torch.ones(1, 10, 2, dtype=torch.bool)
    exists[:, 5:] = False
    scores[:, 5:] += 100
    assert (entry_order(scores, exists)[~exists] == 0).all()


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


def test_the_first_cells_by_number() -> None:
    order = Order.of(torch.tensor([[[4.0, 3.0], [2.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]]]))
    assert order.first(1).tolist() == [[[1, 0], [0, 0]], [[0.5, 0.5], [0, 0]]]
    assert order.first(torch.tensor([3.0, 2.0])).flatten(1).sum(1).tolist() == [3, 2]
    assert order.first(99).tolist() == torch.ones(2, 2, 2).tolist()


def test_some_rows_of_an_order_can_be_replaced() -> None:
    generator = torch.Generator().manual_seed(0)
    one, other = (Order.of(torch.randn(4, 5, 2, generator=generator)) for _ in range(2))
    rows = torch.tensor([2, 0, 0])
    mixed = one.with_rows(rows, other.rows(rows))
    assert torch.equal(mixed.above[[2, 0]], other.above[[2, 0]])
    assert torch.equal(mixed.above[[1, 3]], one.above[[1, 3]])


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_values_are_handed_out_anew_along_an_ordering(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values, scores = torch.rand(2, 6, 3, generator=generator), torch.randn(2, 6, 3, generator=generator)
    given_out = handed_out(values, Order.of(scores)).flatten(1)
    torch.testing.assert_close(given_out.sort(1).values, values.flatten(1).sort(1).values)
    along = given_out.gather(1, scores.flatten(1).argsort(1, descending=True))
    assert (along.diff(dim=1) <= 0).all()


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 3)])
def test_the_smallest_series_have_an_order_too(shape: tuple[int, ...]) -> None:
    order = Order.of(torch.zeros(shape))
    assert (order.above == 0).all()
    assert (order.ties == shape[1] * shape[2]).all()
