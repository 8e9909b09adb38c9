"""Formulas of the metrics at their smallest inputs, each worked out by hand."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.metrics import mean_interval, replace_by_time_mean


def test_the_mean_of_a_channel_with_one_measured_cell_is_that_cell() -> None:
    x, chosen = np.array([[1.0, 7.0], [5.0, 9.0]]), np.ones((2, 2), dtype=bool)
    measured = np.array([[False, False], [True, False]])
    assert replace_by_time_mean(x, chosen, measured).tolist() == [[5.0, 7.0], [5.0, 9.0]]


def test_two_values_have_an_interval_and_one_has_none() -> None:
    """Of draws of two from 1 and 3 a quarter are both 1 and a quarter both 3: more than 2.5 % each."""
    assert mean_interval([1.0, 3.0]).tolist() == [1.0, 3.0]
    assert np.isnan(mean_interval([1.0, np.nan])).all()
