"""CE, ACC and squared error against hand calculation, for binary, multiclass and per-step predictions."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

from dynamask_mlflow.metrics import accuracy_shift, cross_entropy_shift, squared_error_shift


def test_binary_ce_and_acc_follow_the_appendix() -> None:
    p, q = np.array([0.9, 0.2, 0.5]), np.array([0.3, 0.4, 0.6])
    # classes 1, 0, 1 (p = .5 is class 1)
    expected = -(np.log(0.3) + np.log(0.6) + np.log(0.6)) / 3
    assert cross_entropy_shift(p, q) == pytest.approx(expected)
    assert accuracy_shift(p, q) == pytest.approx(2 / 3)
    assert cross_entropy_shift(p, q) == pytest.approx(log_loss([1, 0, 1], q))


def test_binary_and_two_class_forms_agree() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.random(20), rng.random(20)
    pair = lambda v: np.stack([1 - v, v], axis=-1)  # noqa: E731
    assert cross_entropy_shift(p, q) == pytest.approx(float(cross_entropy_shift(pair(p), pair(q), multiclass=True)))
    assert accuracy_shift(p, q) == pytest.approx(float(accuracy_shift(pair(p), pair(q), multiclass=True)))


def test_multiclass_by_hand() -> None:
    p = np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]])
    q = np.array([[0.7, 0.1, 0.2], [0.8, 0.1, 0.1]])
    assert cross_entropy_shift(p, q, multiclass=True) == pytest.approx(-(np.log(0.1) + np.log(0.8)) / 2)
    np.testing.assert_array_equal(accuracy_shift(p, q, multiclass=True, per_instance=True), [0, 1])


def test_steps_are_averaged_within_an_instance() -> None:
    p, q = np.array([[0.9, 0.1]]), np.array([[0.2, 0.1]])
    np.testing.assert_allclose(cross_entropy_shift(p, q, per_instance=True), [-(np.log(0.2) + np.log(0.9)) / 2])
    np.testing.assert_allclose(accuracy_shift(p, q, per_instance=True), [0.5])


def test_a_saturated_probability_costs_a_finite_amount() -> None:
    assert cross_entropy_shift([1.0], [0.0]) == pytest.approx(-np.log(1e-7))


def test_squared_error_sums_outputs_and_averages_instances() -> None:
    y, z = np.zeros((2, 3)), np.array([[1.0, 2, 0], [0, 0, 3]])
    np.testing.assert_allclose(squared_error_shift(y, z, per_instance=True), [5, 9])
    assert squared_error_shift(y, z) == 7


def test_bad_predictions_are_refused() -> None:
    with pytest.raises(ValueError, match="are these logits"):
        cross_entropy_shift([3.0], [0.5])
    with pytest.raises(ValueError, match=r"one shape, but got \(1,\) and \(2,\)"):
        accuracy_shift([0.5], [0.5, 0.5])
    with pytest.raises(ValueError, match="sum to 1"):
        cross_entropy_shift([[0.5, 0.2]], [[0.5, 0.5]], multiclass=True)
    with pytest.raises(ValueError, match="finite y"):
        squared_error_shift([np.nan], [0.0])
