"""AUP and AUR by hand calculation and on a fine grid of thresholds; AUROC and AUPRC as in scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score, roc_auc_score

from dynamask_mlflow.metrics import aup, auprc, aur, auroc, rank_correlation

TRUTH = np.array([[1, 1, 0, 0]], dtype=bool)


def test_a_perfect_binary_mask_has_aup_and_aur_one() -> None:
    assert aup(TRUTH.astype(float), TRUTH) == 1
    assert aur(TRUTH.astype(float), TRUTH) == 1


def test_aup_and_aur_of_a_hand_worked_mask() -> None:
    mask = np.array([[0.8, 0.2, 0.5, 0.0]])
    # (0, .2]: 2 of 3; (.2, .5]: 1 of 2; (.5, .8]: 1 of 1; above .8 the last value, 1, is held.
    assert aup(mask, TRUTH) == pytest.approx(0.2 * 2 / 3 + 0.3 / 2 + 0.3 + 0.2)
    assert aur(mask, TRUTH) == pytest.approx((0.8 + 0.2) / 2)


def test_precision_above_every_mask_value_is_the_last_defined_one() -> None:
    # At .4 two cells enter, one salient: P = 1/2 is held on (.4, 1).
    assert aup(np.array([[0.4, 0.1, 0.4, 0.1]]), TRUTH) == pytest.approx(0.5)


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_a_constant_mask_scores_the_share_of_salient_cells(level: float) -> None:
    truth = np.array([[1, 0, 0, 0]], dtype=bool)
    assert aup(np.full((1, 4), level), truth) == pytest.approx(0.25)
    assert aur(np.full((1, 4), level), truth) == pytest.approx(level)


@settings(max_examples=40, deadline=None)
@given(
    arrays(np.float64, (3, 5), elements=st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1])),
    st.integers(0, 2**15 - 2),
)
def test_exact_areas_agree_with_a_fine_grid(mask: np.ndarray, code: int) -> None:
    truth = np.array([(code + 1) >> bit & 1 for bit in range(15)], dtype=bool).reshape(3, 5)
    thresholds = (np.arange(2000) + 0.5) / 2000
    precision, recall = [], []
    for threshold in thresholds:
        found = mask >= threshold
        if found.any():
            precision.append((found & truth).sum() / found.sum())
        else:
            precision.append(precision[-1] if precision else truth.mean())
        recall.append((found & truth).sum() / truth.sum())
    assert aup(mask, truth) == pytest.approx(np.mean(precision), abs=1e-9)
    assert aur(mask, truth) == pytest.approx(np.mean(recall), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, (4, 5), elements=st.sampled_from([-1.0, 0, 0.5, 2, 3])), arrays(np.bool_, (4, 5)))
def test_ranking_agrees_with_scikit_learn_also_with_ties(scores: np.ndarray, truth: np.ndarray) -> None:
    if truth.all() or not truth.any():
        assert np.isnan(auroc(scores, truth))
        return
    assert auroc(scores, truth) == pytest.approx(roc_auc_score(truth.ravel(), scores.ravel()))
    assert auprc(scores, truth) == pytest.approx(average_precision_score(truth.ravel(), scores.ravel()))


def test_batches_and_missing_cells() -> None:
    rng = np.random.default_rng(0)
    mask, truth, exists = rng.random((6, 5, 4)), rng.random((6, 5, 4)) < 0.3, rng.random((6, 5, 4)) < 0.7
    for metric in (aup, aur, auroc, auprc):
        values = metric(mask, truth, exists)
        assert values.shape == (6,)
        for i in range(6):
            alone = metric(mask[i][exists[i]][None], truth[i][exists[i]][None])
            assert values[i] == pytest.approx(float(alone), nan_ok=True)


def test_no_salient_cell_gives_nan() -> None:
    for metric in (aup, aur, auroc, auprc):
        assert np.isnan(metric(np.full((2, 2), 0.5), np.zeros((2, 2))))


def test_the_shape_of_the_truth_is_checked() -> None:
    for metric in (aup, aur, auroc, auprc):
        with pytest.raises(ValueError, match=r"truth to broadcast to \(1, 4\), but got \(1, 3\)"):
            metric(np.zeros((1, 4)), np.ones((1, 3)))


def test_rank_correlation_by_hand() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: sqrt(.9).
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(np.sqrt(0.9))
    assert np.isnan(rank_correlation([1, 1], [1, 2]))
