"""Formulas of the metrics at their smallest inputs, each worked out by hand."""

from __future__ import annotations

import numpy as np

from dynamask_mlflow.metrics import mean_interval, replace_by_time_mean


def test_the_mean_of_a_channel_with_one_measured_cell_is_that_cell() -> None:
    x, chosen = np.array([[1.0, 7.0], [5.0, 9.0]]), np.ones((2, 2), dtype=bool)
    measured = np.array([[False, False], [True, False]])
    assert replace_by_time_mean(x, chosen, measured).tolist() == [[5.0, 7.0], [5.0, 9.0]]


def test_six_values_have_an_interval_of_their_mean_and_five_have_none() -> None:
    found = mean_interval([1.0, 1.0, 1.0, 1.0, 1.0, 7.0])
    # A draw of six holds the 7 never in 33 %, and four times or more in less than 1 % of all cases: 3 times is 4.
    assert found[0] == 1.0
    assert 3.0 <= found[1] <= 4.0
    assert np.isnan(mean_interval([1.0, 1.0, 1.0, 1.0, 7.0, np.nan])).all()
