"""Calibration in bands, intervals of means, and paired tests, by hand."""

import numpy as np
import pytest

from dynamask_mlflow.metrics.calibration import calibration_bands
from dynamask_mlflow.metrics.paired import compare_with_controls, mean_interval, mean_of_known, paired_p


def test_bands_hold_the_stays_in_the_order_of_their_risk() -> None:
    """Sixteen stays, two bands of eight; 2 of 8 and 6 of 8 died. Wilson's interval of 2 of 8 by its formula."""
    risk = np.linspace(0, 0.75, 16)[::-1]
    died = np.array([1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0])
    first, second = calibration_bands(risk, died)
    assert first["predicted"] == pytest.approx(0.05 * 3.5)
    assert second["predicted"] == pytest.approx(0.05 * 11.5)
    assert (first["observed"], second["observed"]) == (0.25, 0.75)
    z2 = 1.959963984540054**2
    centre, half = (0.25 + z2 / 16) / (1 + z2 / 8), np.sqrt(z2 * (0.25 * 0.75 / 8 + z2 / 256)) / (1 + z2 / 8)
    assert (first["low"], first["high"]) == (pytest.approx(centre - half), pytest.approx(centre + half))
    assert first["instances"] == 8


@pytest.mark.parametrize(("stays", "bands"), [(15, 0), (16, 2), (23, 2), (24, 3), (80, 10), (500, 10)])
def test_bands_have_at_least_eight_stays_and_are_at_most_ten(stays: int, bands: int) -> None:
    assert len(calibration_bands(np.linspace(0, 1, stays), np.arange(stays) % 2)) == bands


def test_an_interval_of_a_mean_leaves_out_what_is_not_known() -> None:
    values = np.ones((2, 8))
    values[0, :2], values[1, :3] = [np.nan, np.inf], np.nan
    low, high = mean_interval(values)
    assert (low[0], high[0]) == (1, 1)
    assert np.isnan([low[1], high[1]]).all()  # a bootstrap of five values is no interval
    drawn = np.random.default_rng(1).normal(size=400)
    low, high = mean_interval(drawn)
    assert (drawn.mean() - low, high - drawn.mean()) == (pytest.approx(1.96 / 20, rel=0.15),) * 2


def test_a_paired_test_needs_six_pairs() -> None:
    assert np.isnan(paired_p(np.arange(1.0, 6.0), np.zeros(5)))
    # All six differences positive: 1 of 2 ** 6 sign patterns.
    assert paired_p(np.arange(1.0, 7.0), np.zeros(6)) == pytest.approx(1 / 64)
    assert paired_p(np.zeros(6), np.arange(1.0, 7.0)) == 1
    assert paired_p(np.append(np.arange(1.0, 7.0), np.nan), np.zeros(7)) == pytest.approx(1 / 64)


def test_means_of_what_is_known() -> None:
    assert mean_of_known([2.0, np.inf, 4.0]) == 3
    assert np.isnan(mean_of_known([np.nan]))


def test_measures_beside_their_controls() -> None:
    """CE is shown by its shift, ACC is better when lower, and what has no control is left out."""
    ours, random = np.arange(2.0, 8.0), np.ones(6)
    each = {
        "ce": ours, "ce/random": random, "ce_shift": ours - 1, "ce_shift/random": random - 1,
        "acc": random, "acc/random": ours, "acc/other": random, "area": ours,
    }  # fmt: skip
    found = compare_with_controls(each)
    assert set(found) == {"ce", "acc"}
    assert (found["ce"]["shift"], found["ce"]["instances"]) == (3.5, 6)
    assert found["ce"]["low"] < 3.5 < found["ce"]["high"]
    assert found["ce"]["controls"] == {"random": (0.0, pytest.approx(1 / 64))}
    assert np.isnan([found["acc"]["shift"], found["acc"]["low"], found["acc"]["high"]]).all()
    assert found["acc"]["controls"] == {"random": (4.5, pytest.approx(1 / 64)), "other": (1.0, 1.0)}
