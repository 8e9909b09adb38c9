"""Which cells move the answer most, one after the other."""

import numpy as np

from dynamask_mlflow.masks.change_ranking import change_ranking


def test_a_sure_class_is_moved_first_by_the_cells_that_speak_for_it() -> None:
    attributions = np.array([3.0, -2.9, 2.8, -2.7, 2.6, 0.1, *[0.0] * 34]).reshape(1, 8, 5)
    unsure, sure = (change_ranking(attributions, attributions, np.array([margin])).ravel() for margin in (0.5, 9.0))
    assert (-unsure).argsort()[:4].tolist() == [0, 1, 2, 3]
    assert (-sure).argsort()[:6].tolist() == [0, 2, 4, 5, 1, 3]
    np.testing.assert_array_equal(change_ranking(attributions, attributions).ravel(), unsure)
    assert unsure.max() == 1
    assert len(np.unique(unsure)) == 40


def test_values_are_moved_most_by_the_largest_attributions_of_either_sign() -> None:
    attributions = np.array([[[0.5, -2.0], [1.0, 0.0]]])
    assert change_ranking(attributions, attributions).tolist() == [[[0.5, 1.0], [0.75, 0.25]]]


def test_each_instance_is_judged_by_its_own_margin() -> None:
    attributions = np.array([3.0, -2.9, 2.8, -2.7, 2.6, 0.1, *[0.0] * 34]).reshape(1, 8, 5)
    both = change_ranking(attributions.repeat(2, 0), attributions.repeat(2, 0), np.array([0.5, 9.0]))
    for row, margin in enumerate((0.5, 9.0)):
        np.testing.assert_array_equal(both[row], change_ranking(attributions, attributions, np.array([margin]))[0])
