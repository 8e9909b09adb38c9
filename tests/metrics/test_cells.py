"""Masks from scores, exact selections, replacement by the time average, random masks."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dynamask_mlflow.metrics import (
    mask_from_scores,
    random_masks,
    replace_by_time_mean,
    replace_cells,
    top_cells,
)


@given(arrays(np.float64, (2, 3, 2), elements=st.floats(-1e6, 1e6)))
@example(np.array([[[5e-324, 0.0]] * 3, [[0.0, 0.0]] * 3]))
@example(np.array([[[1.7e308, -1.7e308]] * 3, [[1e-300, 1e300]] * 3]))
def test_masks_from_scores_fill_the_unit_interval_and_keep_the_order(scores: np.ndarray) -> None:
    masks = mask_from_scores(scores)
    for mask, score in zip(masks, scores, strict=True):
        if score.min() == score.max():
            assert (mask == 0).all()
            continue
        assert mask.min() == 0
        assert mask.max() == pytest.approx(1)
        order = np.argsort(score.ravel(), kind="stable")
        assert (np.diff(mask.ravel()[order]) >= 0).all()


def test_mask_from_scores_by_hand_and_without_missing_cells() -> None:
    np.testing.assert_allclose(mask_from_scores([[-1.0, 0, 3]]), [[0, 0.25, 1]])
    np.testing.assert_allclose(mask_from_scores([[-1.0, 0, 3, 99]], [[1, 1, 1, 0]]), [[0, 0.25, 1, 0]])
    np.testing.assert_allclose(mask_from_scores([[1.0, 2]], [[0, 0]]), [[0, 0]])


@given(st.floats(0, 1), arrays(np.bool_, (3, 4, 5)), st.integers(0, 3))
def test_top_cells_are_exactly_as_many_as_asked_for(area: float, exists: np.ndarray, levels: int) -> None:
    scores = np.random.default_rng(0).integers(0, levels + 1, (3, 4, 5)).astype(float)
    chosen = top_cells(scores, area, exists)
    assert not (chosen & ~exists).any()
    for i in range(3):
        assert chosen[i].sum() == np.floor(area * exists[i].sum() + 0.5)
        if chosen[i].any() and (exists[i] & ~chosen[i]).any():
            assert scores[i][chosen[i]].min() >= scores[i][exists[i] & ~chosen[i]].max()
    assert top_cells(scores, area, exists, scope="batch").sum() == np.floor(area * exists.sum() + 0.5)


def test_batch_scope_takes_more_from_the_instance_with_higher_scores() -> None:
    scores = np.array([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]])
    assert top_cells(scores, 0.5, scope="batch").sum(axis=(1, 2)).tolist() == [0, 4]
    assert top_cells(scores, 0.5).sum(axis=(1, 2)).tolist() == [2, 2]


def test_replacement_uses_the_observed_time_average() -> None:
    x = np.array([[[1.0, 5], [2, 5], [6, 5]]])
    cells = np.array([[[1, 0], [0, 0], [0, 1]]], dtype=bool)
    np.testing.assert_allclose(replace_by_time_mean(x, cells)[0], [[3, 5], [2, 5], [6, 5]])
    observed = np.array([[[1, 0], [1, 0], [0, 0]]], dtype=bool)
    x[0, :, 1] = [7, 8, 9]
    replaced = replace_by_time_mean(x, cells, observed)[0]
    assert replaced[0, 0] == 1.5
    assert replaced[2, 1] == 9  # never observed: no average, the value stays
    assert replace_by_time_mean(x.astype(np.float32), cells).dtype == np.float32


def test_other_baselines() -> None:
    x = np.ones((1, 2, 2))
    cells = np.array([[[1, 0], [0, 0]]])
    assert replace_cells(x, cells, "zero").sum() == 3
    assert replace_cells(x, cells, 5.0).sum() == 8
    with pytest.raises(ValueError, match="Expected baseline"):
        replace_cells(x, cells, "nothing")


def test_random_masks_have_the_area_and_depend_on_the_seed() -> None:
    masks = random_masks((4, 10, 5), 0.1, seed=1)
    assert masks.dtype == np.float32
    assert masks.sum(axis=(1, 2)).tolist() == [5, 5, 5, 5]
    np.testing.assert_array_equal(masks, random_masks((4, 10, 5), 0.1, seed=1))
    np.testing.assert_array_equal(masks[:2], random_masks((2, 10, 5), 0.1, seed=1))
    assert not np.array_equal(masks, random_masks((4, 10, 5), 0.1, seed=2))


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"area in \[0, 1\], but got 1.5"):
        top_cells(np.zeros((1, 2)), 1.5)
    with pytest.raises(ValueError, match="scope 'instance' or 'batch'"):
        top_cells(np.zeros((1, 2)), 0.5, scope="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finite scores"):
        top_cells([[np.nan, 1]], 0.5)
