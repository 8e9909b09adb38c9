"""One rule for which cells come first: arrays and tensors agree, with ties and with cells that do not exist."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dynamask_mlflow._ranking import count_of, places
from dynamask_mlflow.masks.ranking import Order, top_share
from dynamask_mlflow.metrics import top_cells


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), area=st.floats(0, 1), some=st.booleans())
def test_arrays_and_tensors_choose_the_same_cells(seed: int, area: float, some: bool) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, size=(3, 4, 3)).astype(np.float64)  # many ties
    where = rng.random(scores.shape) < 0.7 if some else None
    cells = np.full(3, 12) if where is None else where.sum(axis=(1, 2))
    # Tensors may count in single precision: a product next to a half is another number there.
    assume(bool((np.abs((area * cells) % 1 - 0.5) > 1e-4).all()))
    by_array = top_cells(scores, area, where)
    by_tensor = top_share(torch.as_tensor(scores), area, None if where is None else torch.as_tensor(where))
    np.testing.assert_array_equal(by_array, by_tensor.numpy().astype(bool))


@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_without_ties_the_ordering_of_the_engine_chooses_them_too(count: int) -> None:
    scores = np.random.default_rng(0).permutation(24).reshape(2, 4, 3).astype(np.float64)
    first = Order.of(torch.as_tensor(scores)).first(count).numpy()
    np.testing.assert_array_equal(first, top_cells(scores, count / 12))


def test_cells_that_do_not_count_come_last_and_halves_are_rounded_up() -> None:
    assert places(np.array([3.0, 1.0, 2.0]), np.array([False, True, True])).tolist() == [2, 1, 0]
    assert count_of([0.5, 0.49, 1.0], 3).tolist() == [2, 1, 3]
