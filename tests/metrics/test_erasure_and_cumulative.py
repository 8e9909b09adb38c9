"""Comprehensiveness, sufficiency, CPD and CPP on a linear model, where every removal has a known effect."""

import numpy as np
import pytest

from dynamask_mlflow.metrics import (
    OutputReading,
    comprehensiveness,
    cpd,
    cpp,
    cumulative_difference,
    probability_drop,
    sufficiency,
)

WEIGHTS = np.array([[0.05, 0.2], [0.1, 0.0]])
X = np.array([[[1.0, 1], [1, 1]]])


def linear(x: np.ndarray) -> np.ndarray:
    """P(class 1) = .5 + sum w x, at most .85 on X."""
    return 0.5 + (x * WEIGHTS).sum(axis=(1, 2))


def test_comprehensiveness_and_sufficiency_by_hand() -> None:
    scores = WEIGHTS[None]
    # Removing the best 1, 2 of 4 cells loses .2, .3; keeping them alone loses .15, .05.
    assert comprehensiveness(linear, X, scores, areas=(0.25, 0.5), baseline="zero") == pytest.approx([0.25])
    assert sufficiency(linear, X, scores, areas=(0.25, 0.5), baseline="zero") == pytest.approx([0.1])


def test_the_probability_of_the_predicted_class_is_followed() -> None:
    assert probability_drop([0.2], [0.6]) == pytest.approx([0.4])
    drops = probability_drop([0.2, 0.9], [[0.6, 0.9], [0.2, 0.4]])
    np.testing.assert_allclose(drops, [[0.4, 0], [0, 0.5]])
    steps = probability_drop([[0.2, 0.9]], [[0.6, 0.9]])
    np.testing.assert_allclose(steps, [0.2])


def test_cells_that_do_not_exist_are_not_removed() -> None:
    observed = np.array([[[1, 0], [1, 1]]], dtype=bool)
    # The best cell does not exist, so the next one (.1) goes.
    assert comprehensiveness(linear, X, WEIGHTS[None], (1 / 3,), "zero", observed) == pytest.approx([0.1])
    assert cpd(linear, X, WEIGHTS[None], 1, "zero", observed) == pytest.approx([0.2])


def test_cpd_and_cpp_add_up_single_removals() -> None:
    scores = WEIGHTS[None]
    # Both class probabilities move by the weight of the removed cell.
    assert cpd(linear, X, scores, k=2, baseline="zero") == pytest.approx([2 * (0.2 + 0.1)])
    assert cpp(linear, X, scores, k=2, baseline="zero") == pytest.approx([2 * (0.0 + 0.05)])
    assert cpd(linear, X, scores, k=2, baseline="zero", reading=OutputReading(class_mean=True)) == pytest.approx([0.3])
    np.testing.assert_allclose(cpd(linear, X, scores, k=(1, 2, 4), baseline="zero"), [[0.4], [0.6], [0.7]])


def test_opposite_effects_do_not_cancel() -> None:
    weights = np.array([[0.3, -0.3]])
    predict = lambda x: 0.5 + (x * weights).sum(axis=(1, 2))  # noqa: E731
    assert cpd(predict, np.ones((1, 1, 2)), np.array([[[2.0, 1.0]]]), k=2, baseline="zero") == pytest.approx([1.2])


def test_the_time_mean_changes_nothing_on_a_constant_series() -> None:
    assert cpd(linear, X, WEIGHTS[None], k=3) == pytest.approx([0])
    assert comprehensiveness(linear, X, WEIGHTS[None]) == pytest.approx([0])


def test_arrays_along_a_path_give_the_same_sum() -> None:
    path = np.array([[0.85], [0.65], [0.55]])
    assert cumulative_difference(path) == pytest.approx([0.6])
    assert cumulative_difference(path, OutputReading(regression=True)) == pytest.approx([0.3])


def test_multiclass_steps_are_averaged() -> None:
    path = np.array([[[[0.5, 0.5], [0.9, 0.1]]], [[[0.2, 0.8], [0.9, 0.1]]]])
    assert cumulative_difference(path, OutputReading(multiclass=True)) == pytest.approx([0.3])


def test_the_input_is_left_alone() -> None:
    x = X.copy()
    cpd(linear, x, WEIGHTS[None], k=2, baseline="zero")
    np.testing.assert_array_equal(x, X)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"each k in \[1, 4\]"):
        cpd(linear, X, WEIGHTS[None], k=5)
    with pytest.raises(ValueError, match="one shape"):
        cpp(linear, X, WEIGHTS, k=1)
    with pytest.raises(ValueError, match="at least one area"):
        sufficiency(linear, X, WEIGHTS[None], areas=())
    with pytest.raises(ValueError, match="one axis before it"):
        probability_drop([0.5, 0.5], [0.5])
