"""The paper's worked example (section 2.4), its propositions, and the cap of the information."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dynamask_mlflow.metrics import (
    entropy,
    information,
    information_ratio,
    normalized_entropy,
    normalized_information,
)

SHAPE = (4, 3)
masks = arrays(np.float64, SHAPE, elements=st.floats(0, 1))
cells = arrays(np.bool_, SHAPE)

SHARP = np.array([[0.9] * 3 + [0.0] * 7])
VAGUE = np.full((1, 10), 0.5)


def test_the_papers_example_has_equal_information_but_unequal_entropy() -> None:
    assert information(SHARP) == pytest.approx(6.9, abs=0.05)
    assert information(VAGUE) == pytest.approx(6.9, abs=0.05)
    assert entropy(SHARP) == pytest.approx(0.98, abs=0.005)
    assert entropy(VAGUE) == pytest.approx(6.93, abs=0.005)


def test_base_two_counts_bits() -> None:
    assert information(VAGUE, base=2) == pytest.approx(10)
    assert entropy(VAGUE, base=2) == pytest.approx(10)


@given(masks, cells, cells)
def test_information_and_entropy_are_measures(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    for measure in (information, entropy):
        assert measure(mask, a) >= 0
        assert measure(mask, a | b) == pytest.approx(measure(mask, a) + measure(mask, b) - measure(mask, a & b))
        assert measure(mask, a & b) <= measure(mask, a) + 1e-12
        assert measure(mask, np.zeros_like(a)) == 0


@given(masks, cells)
def test_normalised_versions_are_shares(mask: np.ndarray, a: np.ndarray) -> None:
    for share, measure in ((normalized_information, information), (normalized_entropy, entropy)):
        if measure(mask) > 1e-9:
            assert 0 <= share(mask, a) <= 1 + 1e-9
            assert share(mask, a) + share(mask, ~a) == pytest.approx(1)


def test_shares_of_nothing_are_undefined() -> None:
    assert np.isnan(normalized_information(np.zeros(SHAPE), np.ones(SHAPE)))
    assert np.isnan(normalized_entropy(np.ones(SHAPE), np.ones(SHAPE)))


@pytest.mark.parametrize("epsilon", [1e-3, 1e-5, 1e-9])
def test_information_is_capped_and_its_ratio_does_not_depend_on_the_cap(epsilon: float) -> None:
    mask = np.array([[1.0, 1.0, 0.0]])
    assert information(mask, epsilon=epsilon) == pytest.approx(-2 * np.log(epsilon))
    assert information_ratio(mask, [[1, 1, 0]], epsilon=epsilon) == pytest.approx(1)
    assert information_ratio(mask, epsilon=epsilon) == pytest.approx(2 / 3)


def test_the_default_cap_is_that_of_the_released_code() -> None:
    assert information(np.ones((1, 1)), base=2) == pytest.approx(16.61, abs=0.005)


def test_a_batch_gives_one_value_an_instance() -> None:
    batch = np.random.default_rng(0).random((5, *SHAPE))
    for measure in (information, entropy, information_ratio):
        assert measure(batch).shape == (5,)
        np.testing.assert_allclose(measure(batch), [measure(m) for m in batch])


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros(3), r"shape \(T, d\) or \(N, T, d\), but got \(3,\)"),
        (np.full((1, 1), 1.5), r"in \[0, 1\], but got \[1.5, 1.5\]"),
        (np.full((1, 1), np.nan), "finite mask"),
    ],
)
def test_bad_masks_are_refused(mask: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        information(mask)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="base > 1"):
        information(VAGUE, base=1)
    with pytest.raises(ValueError, match=r"epsilon in \(0, 1\)"):
        information(VAGUE, epsilon=0)
    with pytest.raises(ValueError, match=r"where to broadcast to \(1, 10\), but got \(1, 9\)"):
        information(VAGUE, np.ones((1, 9)))
    with pytest.raises(ValueError, match="only 0 and 1"):
        entropy(VAGUE, np.full((1, 10), 2))
