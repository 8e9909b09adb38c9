"""Scores against hand calculation, on a model that can be done on paper: the logit is the sum of one channel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynamask_mlflow.evaluation.scoring import CHUNK, Controls, Eraser, score
from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.metrics import mask_profile, top_cells

# Two channels over four steps; only the last value of channel 0 counts.
X = np.array([[[0.0, 5.0], [0.0, 5.0], [0.0, 5.0], [4.0, 5.0]]], dtype=np.float32)


def probabilities(x: np.ndarray, sample: Any = None, removed: Any = None) -> np.ndarray:
    p = 1 / (1 + np.exp(-x[:, -1, 0]))
    return np.stack([1 - p, p], axis=-1)


def masks_of(scores: np.ndarray, area: float) -> Masks:
    n = len(scores)
    return Masks(
        masks=(scores >= np.sort(scores.reshape(n, -1))[:, -1].reshape(n, 1, 1)).astype(np.float32),
        scores=scores.astype(np.float32),
        areas=np.array([area]),
        errors=np.zeros((n, 1)),
        area=np.full(n, area),
    )


def scored(
    sample: Sequences,
    scores: np.ndarray,
    area: float,
    predict: Any = probabilities,
    task: str = "classification",
    **options: Any,
) -> Any:
    masks = masks_of(scores, area)
    return score(masks, sample, predict(sample.x), predict, task, Controls((area, 1.0), **options))


def ranking(first: tuple[int, int], n: int = 1) -> np.ndarray:
    scores = np.tile(np.linspace(0, 0.5, 8).reshape(1, 4, 2), (n, 1, 1))
    scores[:, first[0], first[1]] = 1
    return scores


def test_the_salient_cell_is_replaced_by_its_channels_mean() -> None:
    result = scored(as_sequences(X), ranking((3, 0)), 1 / 8)
    # The mean of 0, 0, 0, 4 is 1: the probability falls from sigma(4) to sigma(1), the class stays.
    assert result.each["ce"][0] == pytest.approx(-np.log(1 / (1 + np.exp(-1))))
    assert result.each["acc"][0] == 1
    assert result.without[0, 1] == pytest.approx(1 / (1 + np.exp(-1)))
    assert result.curves["ce"][0] == pytest.approx(result.each["ce"][0])


def test_a_cell_that_does_not_count_changes_nothing() -> None:
    result = scored(as_sequences(X), ranking((0, 1)), 1 / 8)
    assert result.each["ce"][0] == pytest.approx(-np.log(1 / (1 + np.exp(-4))), rel=1e-4)
    # The cell that counts is third in this ranking: of the five areas only 50 % hold it.
    assert result.each["comprehensiveness"][0] == pytest.approx((1 / (1 + np.exp(-4)) - 1 / (1 + np.exp(-1))) / 5)


def test_sufficiency_and_comprehensiveness_are_means_over_five_areas() -> None:
    result = scored(as_sequences(X), ranking((3, 0)), 1 / 8)
    drop = 1 / (1 + np.exp(-4)) - 1 / (1 + np.exp(-1))
    # 1 and 5 % of eight cells are none, 10, 20 and 50 % are one, two and four: all hold the best cell.
    assert result.each["comprehensiveness"][0] == pytest.approx(drop * 3 / 5)
    assert result.each["sufficiency"][0] == pytest.approx(drop * 2 / 5)


def test_cells_that_were_not_measured_are_never_removed() -> None:
    observed = np.ones(X.shape, dtype=bool)
    observed[0, 3, 0] = False
    result = scored(as_sequences(X, observed=observed), ranking((3, 0)), 1.0)
    assert result.each["ce"][0] == pytest.approx(-np.log(1 / (1 + np.exp(-4))), rel=1e-4)
    assert result.each["ce/random"][0] == pytest.approx(result.each["ce"][0])


def test_random_cells_are_as_many_and_worse() -> None:
    n = 40
    sample = as_sequences(np.repeat(X, n, axis=0), ids=range(n))
    summary = scored(sample, ranking((3, 0), n), 1 / 8).summary()
    assert summary["ce"] > summary["ce/random"] > 0
    low, high = -np.log(1 / (1 + np.exp(-4))), -np.log(1 / (1 + np.exp(-1)))
    hit = (summary["ce/random"] - low) / (high - low)
    assert 0.02 < hit < 0.35  # one cell of eight is drawn


def test_steps_in_the_padding_do_not_count() -> None:
    def every_step(x: np.ndarray, *_: Any) -> np.ndarray:
        return x[:, :, 0]

    x = np.array([[[1.0, 0.0], [3.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    sample = as_sequences(x, lengths=[2])

    def noisy(values: np.ndarray, *_: Any) -> np.ndarray:
        y = every_step(values).copy()
        y[:, 2:] = np.random.default_rng().normal(size=2)  # what a model says about padding means nothing
        return y

    result = scored(sample, ranking((1, 0)), 1 / 4, noisy, "regression")
    # The mean of the two steps that exist is 2: the squared error is (3 - 2)^2.
    assert result.each["squared_error"][0] == pytest.approx(1)


def test_chunks_do_not_change_anything() -> None:
    n = CHUNK + 3
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4, 2))
    scores = rng.random((n, 4, 2))
    whole = scored(as_sequences(x), scores, 1 / 4, instances=n)
    part = scored(as_sequences(x[:5]), scores[:5], 1 / 4)
    for name, values in part.each.items():
        np.testing.assert_allclose(whole.each[name][:5], values, rtol=1e-6, err_msg=name)


def test_a_profile_is_the_mean_over_the_cells_that_exist() -> None:
    sample = as_sequences(np.ones((2, 2, 2)), lengths=[2, 1])
    masks = np.array([[[1, 0], [1, 0]], [[1, 1], [0, 0]]], dtype=np.float32)
    profile = mask_profile(masks, sample.eligible, sample.exists)
    np.testing.assert_allclose(profile.by_cell, [[1, 0.5], [1, 0]])
    np.testing.assert_allclose(profile.by_channel, [1, 1 / 3])
    np.testing.assert_allclose(profile.by_time, [0.75, 0.5])
    np.testing.assert_allclose(profile.share_by_channel, [0.75, 0.25])


def test_a_profile_has_no_number_of_a_smaller_group_than_asked() -> None:
    sample = as_sequences(np.ones((2, 2, 2)), lengths=[2, 1])
    masks = np.array([[[1, 0], [1, 0]], [[1, 1], [0, 0]]], dtype=np.float32)
    profile = mask_profile(masks, sample.eligible, sample.exists, least=2)
    np.testing.assert_allclose(profile.by_cell, [[1, 0.5], [np.nan, np.nan]])
    np.testing.assert_allclose(profile.by_channel, [1, 0.5])
    np.testing.assert_allclose(profile.share_by_channel, [2 / 3, 1 / 3])
    assert np.isnan(mask_profile(masks, sample.eligible, sample.exists, least=3).by_channel).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_best_cells_are_those_of_the_metrics_with_ties_and_cells_that_do_not_exist(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, 7, 3))
    where = rng.random(x.shape) < 0.7
    scores = rng.integers(0, 5, x.shape).astype(np.float32)
    sample = as_sequences(x)
    eraser = Eraser(sample, probabilities(sample.x), probabilities, "classification", scores, where)
    areas = np.array([0.0, 0.02, 0.1, 0.5, 0.93, 1.0])
    wanted = [top_cells(*each) for each in zip(scores, areas, where, strict=True)]
    np.testing.assert_array_equal(eraser.best(areas), wanted)
    np.testing.assert_array_equal(eraser.best(0.3), top_cells(scores, 0.3, where))


def test_an_area_of_the_curves_and_of_comprehensiveness_is_asked_about_once() -> None:
    asked = []

    def counting(x: np.ndarray, *_: Any) -> np.ndarray:
        asked.append(len(x))
        return probabilities(x)

    sample = as_sequences(X)
    masks = masks_of(ranking((3, 0)), 1 / 8)
    score(masks, sample, probabilities(X), counting, "classification", Controls((0.1, 0.2, 0.3)))
    # The own area; {1, 5, 10, 20, 30, 50 %} without and five with alone, together; the same for random cells.
    assert asked == [1, 11, 1, 11]


def test_random_cells_have_curves_of_a_part_and_shifts_of_all() -> None:
    n = 40
    sample = as_sequences(np.repeat(X, n, axis=0), ids=range(n))
    masks = masks_of(ranking((3, 0), n), 1 / 8)
    asked: Any = (masks, sample, probabilities(sample.x), probabilities, "classification")
    part = score(*asked, Controls((0.5,), instances=10))
    whole = score(*asked, Controls((0.5,), instances=n))
    alone = score(*asked)
    assert not alone.curves
    np.testing.assert_array_equal(alone.each["ce"], whole.each["ce"])
    np.testing.assert_array_equal(part.each["ce/random"], whole.each["ce/random"])
    measured = np.isfinite(part.each["sufficiency/random"])
    assert np.flatnonzero(measured).tolist() == [0, 4, 8, 13, 17, 21, 26, 30, 34, 39]
    np.testing.assert_array_equal(part.each["sufficiency/random"][measured], whole.each["sufficiency/random"][measured])
    assert 0 < part.curves["ce/random"][0] < part.curves["ce"][0] + 1e-9
    np.testing.assert_array_equal(part.curves["ce"], whole.curves["ce"])
