"""Formulas of the audit's statistics, each worked out by hand on a few numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from dynamask_mlflow.audit import statistics as s
from dynamask_mlflow.audit.statistics.canary import rounding_limit, rounding_noise
from dynamask_mlflow.audit.statistics.effect import Z975, moved_share, provable_move, standard_error
from dynamask_mlflow.audit.statistics.groups import Group, group_differences, group_drift
from dynamask_mlflow.audit.statistics.inputs import decile_codes, decile_edges, input_test
from dynamask_mlflow.audit.statistics.marginals import attention
from dynamask_mlflow.audit.statistics.multiplicity import standardized
from dynamask_mlflow.audit.statistics.performance import recalibrated, regression_scores, weighted_residuals
from dynamask_mlflow.audit.statistics.permutation import FEW, energy_distances, mean_gaps, permuted_labels
from dynamask_mlflow.audit.statistics.predictions import _distances, paired_performance, prediction_test
from dynamask_mlflow.audit.statistics.quality import compare_means, quality_test
from dynamask_mlflow.audit.statistics.slice_inputs import slice_input_test
from dynamask_mlflow.audit.statistics.slices import Rows, change_point, search_slices

CURRENT = np.array([False, False, False, True, True, True])
VALUES = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0])


def test_a_standard_error_of_stays_that_are_patients() -> None:
    """Pulls (v - mean) / 3: -1/3, 0, 1/3 and -2/3, 0, 2/3; their squares sum to 10/9, times 6 / (6 - 2)."""
    error = standard_error(VALUES[:, None], CURRENT, np.arange(6))
    assert error == pytest.approx([np.sqrt(1.5 * 10 / 9)])


def test_a_standard_error_of_patients_with_several_stays() -> None:
    """Patients a = {0, 2} and b = {3, 5} cancel within themselves; c and d have no pull."""
    patients = np.array(["a", "c", "a", "b", "d", "b"])
    assert standard_error(VALUES[:, None], CURRENT, patients) == pytest.approx([0.0], abs=1e-12)
    # {2, 5} pull together: 1/3 - 2/3, and {0}, {3} alone: 1/3, 2/3. Five patients: 5 / 3.
    signs = np.array(["a", "b", "c", "d", "e", "c"])
    pulls = np.array([1 / 3, 0, -1 / 3 + 2 / 3, -2 / 3, 0])
    assert standard_error(VALUES[:, None], CURRENT, signs) == pytest.approx([np.sqrt(5 / 3 * (pulls**2).sum())])


def test_the_share_moved_and_its_bounds() -> None:
    """TV of (.5, .5) and (.8, .2) is .3; the null rows hold .1 twice: sqrt(.09 - .01)."""
    values = np.array([[0.4, 0.6], [0.6, 0.4], [0.7, 0.3], [0.9, 0.1]])
    labels = np.array([[0, 0, 1, 1]] * 41, dtype=np.uint8)
    gaps = np.array([[0.3, -0.3]] + [[0.1, -0.1]] * 40)
    effect = moved_share(values, labels, np.arange(4), gaps)
    moved = np.sqrt(0.08)
    # Along the signs a stay is worth p0 - p1, which lies .2 on either side of its window's mean: pulls of .1.
    spread = 0.5 * np.sqrt(4 / 2 * 4 * 0.1**2)
    assert effect.observed == pytest.approx(0.3)
    assert effect.moved == pytest.approx(moved)
    assert effect.low == pytest.approx(moved - 1.959963985 * spread)
    assert effect.high == pytest.approx(moved + 1.959963985 * spread)
    assert effect.lower == pytest.approx(moved - 1.644853627 * spread)
    assert effect.upper == pytest.approx(moved + 1.644853627 * spread)


def test_what_chance_explains_is_not_bounded_away_from_nothing() -> None:
    values = np.array([[0.4, 0.6], [0.6, 0.4], [0.7, 0.3], [0.9, 0.1]])
    labels = np.array([[0, 0, 1, 1]] * 5, dtype=np.uint8)
    gaps = np.array([[0.3, -0.3], [0.3, -0.3], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    assert moved_share(values, labels, np.arange(4), gaps).low == 0


def test_more_stays_prove_a_smaller_move() -> None:
    """Twice the standard error, twice the move: four times the stays on both sides halve it."""
    rng = np.random.default_rng(0)
    few, many = rng.dirichlet(np.ones(4), 100), rng.dirichlet(np.ones(4), 1600)
    provable = [provable_move([values], np.arange(len(values)), len(values)) for values in (few, many)]
    assert provable[0] / provable[1] == pytest.approx(4, rel=0.15)
    # A window without end leaves the reference's own error: sqrt(2) less.
    assert provable[0] / provable_move([few], np.arange(100), 10**9) == pytest.approx(np.sqrt(2), rel=0.02)
    # Pairs of equal stays of one patient are half as many stays.
    twice = provable_move([np.repeat(few, 2, axis=0)], np.repeat(np.arange(100), 2), 200)
    assert twice == pytest.approx(provable[0], rel=1e-6)


def test_means_compared_with_their_interval() -> None:
    shift = compare_means(VALUES, CURRENT, np.arange(6), p_value=0.2)
    margin = Z975 * np.sqrt(1.5 * 10 / 9)
    assert (shift.reference, shift.current) == (2, 6)
    assert (shift.low, shift.high) == (pytest.approx(4 - margin), pytest.approx(4 + margin))
    assert shift.effect == pytest.approx(4 / np.sqrt(2 / 3))
    assert compare_means(np.where(CURRENT, VALUES, 1.0), CURRENT, np.arange(6), 0.2).effect == 0


def test_numbers_of_one_window_alone_are_not_compared() -> None:
    labels = permuted_labels(CURRENT, np.arange(6), 99, 0)
    numbers = {
        "both": VALUES,
        "reference": np.where(CURRENT, np.nan, VALUES),
        "current": np.where(CURRENT, VALUES, np.nan),
        "none": np.full(6, np.nan),
    }
    assert list(quality_test(numbers, labels, np.arange(6))) == ["both"]
    assert quality_test({"none": numbers["none"]}, labels, np.arange(6)) == {}


def test_gaps_of_means_where_some_are_not_known() -> None:
    values = np.array([[1.0, np.nan], [3.0, 2.0], [5.0, np.nan], [9.0, np.nan]])
    labels = np.array([[0, 0, 1, 1], [1, 0, 0, 1]], dtype=np.uint8)
    assert mean_gaps(values, labels).tolist() == [[5.0, 0.0], [1.0, 0.0]]


def test_attention_is_the_logarithm_of_the_area_at_which_a_cell_enters() -> None:
    """Four cells enter at 1/8, 3/8, 5/8 and 7/8 of the cells; below area .5 only the first two count."""
    found = attention(np.array([[[4.0, 3.0], [2.0, 1.0]]]), 0.5)
    assert found[0] == pytest.approx(np.array([[np.log(4), np.log(4 / 3)], [0, 0]]))
    eligible = np.array([[[False, True], [True, False]]])
    assert attention(np.array([[[4.0, 3.0], [2.0, 1.0]]]), 1.0, eligible)[0] == pytest.approx(
        np.array([[0, np.log(4)], [np.log(4 / 3), 0]])
    )
    for area in (0.0, 1.1):
        with pytest.raises(ValueError, match="area in"):
            attention(np.ones((1, 1, 2)), area)


def test_deciles_and_the_codes_of_values_among_them() -> None:
    edges = decile_edges(np.column_stack([np.arange(11.0), np.full(11, np.nan)]))
    assert edges[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert np.isnan(edges[1]).all()
    codes = decile_codes(np.array([[0.5, 1.0], [1.0, 2.0], [np.nan, 3.0], [9.0, 4.0]]), edges)
    assert codes.tolist() == [[0, -1], [1, -1], [-1, -1], [17, -1]]
    assert decile_codes(np.array([[0.9999999]]), edges[:1]).tolist() == [[1]]


def test_the_distance_of_two_windows_at_the_deciles() -> None:
    """Reference codes 0, 2, 4, 6; now 2, 4, 6, 8, and 10 of one channel unknown: F differs by 1/4 throughout."""
    codes = np.array([[0, 18], [2, 18], [4, 18], [6, 18], [2, 18], [4, 18], [6, 18], [8, -1]], dtype=np.int8)
    current = np.arange(8) >= 4
    test = input_test(codes, permuted_labels(current, np.arange(8), 99, 0))
    assert test.value_gap == pytest.approx([0.25])
    assert test.missing_gap == pytest.approx([0.0])
    # The mean code rises from 3 to 5 of 18.
    assert test.value_shift == pytest.approx([2 / 18])
    assert test.missing_p == pytest.approx([1.0])
    assert test.moved(0.0) == ()
    assert test.moved(1.0) == (0,)


def test_inputs_within_a_slice() -> None:
    codes = np.tile(np.array([[6, 0]], dtype=np.int8), (80, 1))
    current, ward = np.arange(80) >= 40, np.arange(80) % 2 == 0
    codes[current & ward, 0] = 15
    labels = permuted_labels(current, np.arange(80), 199, 0)
    found = slice_input_test(codes, labels, {"ward": ward, "small": np.arange(80) % 3 == 0, "one": np.arange(80) < 1})
    best = found[0]
    assert (best.channel, best.kind, best.slice, best.share) == (0, "values", "ward", 0.5)
    assert best.shift == pytest.approx(9 / 18)
    assert best.gap == 1
    assert best.p_value == pytest.approx(1 / 200)
    assert {each.slice for each in found} == {"ward"}  # 13 stays of each window are too few, and so is one
    assert [each.kind for each in found[1:]] == ["gaps"]
    assert found[1].gap == 0


def test_the_change_inside_a_slice_beside_that_outside() -> None:
    """Inside the mean goes from 0 to 3, outside from 0 to 1; each cell has 16 stays one above and one below."""
    rng = np.tile([-1.0, 1.0], 32)
    current, member = np.arange(64) >= 32, np.arange(64) % 4 < 2
    scores = rng + np.where(current, np.where(member, 3.0, 1.0), 0.0)
    (found,) = search_slices(Rows(scores, current, np.arange(64), {"ward": member, "same": member}))
    # Each of the four cells has the squared error 16 / (16 * 15).
    error = np.sqrt(4 / 15)
    assert found.names == ("ward", "same")
    assert (found.inside, found.outside) == (3, 1)
    assert found.z == pytest.approx(2 / error)
    assert (found.low, found.high) == (pytest.approx(2 - Z975 * error), pytest.approx(2 + Z975 * error))
    assert found.share == 0.5
    # Pairs of one patient within a cell cancel: nothing is left of the error, and nothing can be said.
    (paired,) = search_slices(Rows(scores, current, np.arange(64) // 2, {"ward": member}))
    assert paired.z == 0


def test_a_slice_of_fifteen_stays_is_searched_and_one_of_fourteen_is_not() -> None:
    current = np.arange(80) >= 40
    scores = np.random.default_rng(0).normal(size=80)
    for size, searched in ((15, 1), (14, 0)):
        member = (np.arange(80) % 40) < size
        assert len(search_slices(Rows(scores, current, np.arange(80), {"ward": member}))) == searched


def test_the_day_from_which_on_scores_are_others() -> None:
    days = np.repeat(np.arange(10), 10)
    noise = np.random.default_rng(0).normal(size=100)
    assert change_point(noise + 3 * (days >= 6), days) == 6
    assert change_point(noise, days) is None
    assert change_point(np.zeros(100), days) is None
    # From the ninth day on there are only ten scores.
    assert change_point(noise + 9 * (days >= 9), days) != 9


def test_what_rounding_does_and_may_do() -> None:
    first = np.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]]), np.array([[1.0], [1.0], [1.0]])
    second = np.array([[0.4, 0.6], [0.2, 0.8], [0.7, 0.3]]), np.array([[1.0], [1.0], [1.0]])
    assert rounding_noise(first, second) == pytest.approx(0.1)
    assert rounding_limit(None, 3) == 5e-4
    assert rounding_limit(0.002, 3) == pytest.approx(0.006)
    assert rounding_limit(0.0, 3) == 1e-4


def test_noise_between_seeds_beside_that_between_instances() -> None:
    """Mean profiles (.5, .5) and (.6, .4): .1. Variances: .005 of each number between seeds, .0625 between stays."""
    fits = [np.array([[0.25, 0.75], [0.75, 0.25], [np.nan, 1.0]]), np.array([[0.35, 0.65], [0.85, 0.15], [0.5, 0.5]])]
    found = s.noise_floor(fits)
    assert found["moved"] == pytest.approx(0.1)
    assert found["variance_share"] == pytest.approx(0.005 / 0.0625)
    with pytest.raises(ValueError, match="at least two seeds"):
        s.noise_floor(fits[:1])


def test_a_version_that_gives_a_channel_up() -> None:
    old = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [np.nan] * 3]), np.array([[0.5, 0.5]] * 3)
    new = (
        np.array([[0.9, 0.06, 0.04], [0.5, 0.3, 0.2], [1.0, 0.0, 0.0]]),
        np.array([[0.7, 0.3], [0.5, 0.5], [1.0, 0.0]]),
    )
    found = s.compare_versions(old, new, important=0.25)
    assert found.channels == pytest.approx(0.2)
    assert found.hours == pytest.approx(0.1)
    assert (found.largest, found.channel) == (pytest.approx(0.2), 0)
    assert (found.lost, found.lost_channel) == (pytest.approx(0.4), 1)
    assert found.channel_shift == pytest.approx([0.2, -0.12, -0.08])
    assert found.hour_shift == pytest.approx([0.1, -0.1])


def test_risks_as_observed_and_the_residuals_by_them() -> None:
    """Outcomes 0, 1, 0, 1, 1 in the order of the scores: blocks of 1, 2 and 2 stays with 0, 1 and 2 cases."""
    scores, outcomes = np.array([0.5, 0.1, 0.2, 0.9, 0.4]), np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    risks = np.array([3 / 4, 1 / 3, 2 / 4, 3 / 4, 2 / 4])
    assert recalibrated(scores, outcomes) == pytest.approx(risks)
    spread = risks * (1 - risks)
    expected = np.column_stack([outcomes - scores, (outcomes - risks) / np.sqrt(spread), (outcomes - risks) / spread])
    assert weighted_residuals(scores, outcomes) == pytest.approx(expected)


def test_errors_of_a_regression_by_weights() -> None:
    weights = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 3.0]])
    found = regression_scores(np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.0, 3.0]), weights)
    assert found["error"] == pytest.approx([1.5, 0.5])
    assert found["calibration"] == pytest.approx([-0.5, -0.5])


def test_groups_beside_their_past_and_beside_the_others() -> None:
    rng = np.random.default_rng(0)
    current, women = np.arange(120) >= 60, np.arange(120) % 2 == 0
    risk = rng.normal(size=120) + 4 * (women & current)
    members = {Group("sex", "female"): women, Group("sex", "male"): ~women}
    labels = permuted_labels(current, np.arange(120), 199, 0)
    numbers = {"risk": risk, "few": np.where(np.arange(120) == 0, 1.0, np.nan)}
    found = {(str(each.group), each.measure): each for each in group_drift(numbers, labels, np.arange(120), members)}
    assert set(found) == {("sex female", "risk"), ("sex male", "risk")}
    female = found["sex female", "risk"]
    assert female.stays == (30, 30)
    assert female.p_value == pytest.approx(1 / 200)
    assert female.current - female.reference == pytest.approx(
        risk[women & current].mean() - risk[women & ~current].mean()
    )
    assert found["sex male", "risk"].p_value > 0.05
    beside = group_differences(
        {"risk": risk[current]}, np.arange(60), {g: m[current] for g, m in members.items()}, 199, 0
    )
    assert [str(each.group) for each in beside] == ["sex female"]  # the other one is its mirror
    assert beside[0].current == pytest.approx(risk[women & current].mean())
    assert beside[0].reference == pytest.approx(risk[~women & current].mean())
    assert group_drift(numbers, labels, np.arange(120), {}) == []


def test_how_far_the_distribution_of_predictions_lies_from_its_past() -> None:
    """Of .1, .2, .3 and .2, .3, .4 the distribution functions are a third apart; of the reference itself nothing."""
    scores = np.array([0.1, 0.2, 0.3, 0.2, 0.3, 0.4])
    test = prediction_test(scores, permuted_labels(CURRENT, np.arange(6), 99, 0), np.arange(6), thresholds=(0.3,))
    found = test.distribution
    assert (found.reference, found.current, found.low, found.high) == (0, pytest.approx(1 / 3), 0, 1)
    assert test.spread == pytest.approx(np.sqrt(0.02 / 3))
    assert test.stays == (3, 3)
    assert (test.mean.reference, test.mean.current) == (pytest.approx(0.2), pytest.approx(0.3))
    assert (test.above[0.3].reference, test.above[0.3].current) == (pytest.approx(1 / 3), pytest.approx(2 / 3))


@pytest.mark.parametrize(
    ("count", "p_value", "expected"), [(FEW, 0.0, [1]), (FEW + 1, 0.05, [1, 2]), (FEW + 1, 0.051, [1])]
)
def test_all_permutations_are_asked_where_a_few_leave_it_open(count: int, p_value: float, expected: list[int]) -> None:
    asked = []

    def test(labels: np.ndarray) -> float:
        asked.append(1 if len(labels) == FEW + 1 else 2)
        return p_value

    draws = s.Permutations(np.array([False, True]), np.arange(2), count, 0)
    assert draws.staged(test, lambda found: found) == p_value
    assert asked == expected


def test_two_predictions_of_the_same_stays() -> None:
    patients = np.array(["a", "a", "b"])
    shift = s.paired_shift(np.array([0.1, 0.2, 0.3]), np.array([0.2, 0.2, 0.5]), patients)
    # Gaps of .1, 0 and .2 around their mean .1: (0 - .1) / 3 of patient a, .1 / 3 of b; two patients over one less.
    margin = Z975 * np.sqrt(2 * (0.1 / 3) ** 2 * 2 / 1)
    assert (shift.reference, shift.current) == (pytest.approx(0.2), pytest.approx(0.3))
    assert (shift.low, shift.high) == (pytest.approx(0.1 - margin), pytest.approx(0.1 + margin))


def test_masks_against_controls() -> None:
    own = np.array([2.0, 3, 4, 1, np.nan])
    found = s.check_trust(own, np.array([1.0, 3, 2, 2, 0]), np.zeros(5), alpha=0.05, minimum=4)
    assert (found.wins_other, found.wins_mean_map, found.instances, found.enough) == (2.5 / 4, 1.0, 4, True)
    # Differences 1, 2 and -1 have ranks 1.5, 3 and 1.5: their positive ranks sum to 4.5 of 6, by a normal of mean 3.
    variance = (3 * 4 * 7 - (2**3 - 2) / 2) / 24
    assert found.p_other == pytest.approx(norm.sf((4.5 - 3 - 0.5) / np.sqrt(variance)))
    assert not found.trusted
    assert not s.check_trust(own, np.zeros(5), np.zeros(5), alpha=0.05, minimum=5).enough


def test_statistics_in_units_of_their_permutations() -> None:
    """Rows 1 on of the first column are 1 and 5: 3 with a spread of 2. The second never varies."""
    found = standardized(np.array([[7.0, 4.0], [1.0, 4.0], [5.0, 4.0]]))
    assert found.tolist() == [[2.0, 0.0], [-1.0, 0.0], [1.0, 0.0]]


def test_the_energy_distance_of_three_points() -> None:
    """0 and 1 before, 3 now: 2 (3 + 2) / 2 between, 0 within one point, (1 + 1) / 4 within two."""
    labels = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0]], dtype=np.uint8)
    found = energy_distances(np.array([[0.0], [1.0], [3.0]]), labels)
    assert found.tolist() == pytest.approx([5.0 - 0.5, 0.0, 0.0])


def test_the_inputs_of_a_window_with_one_known_stay() -> None:
    """Level 0 now, levels 4 and 9 before: up to level 3 the distribution functions are 1 apart."""
    codes = np.array([[4, 0], [9, 0], [0, 0]], dtype=np.int8)
    found = input_test(codes, np.array([[0, 0, 1], [1, 0, 0]], dtype=np.uint8))
    assert (found.value_gap.tolist(), found.missing_gap.tolist()) == ([1.0], [0.0])


def test_the_distance_from_a_single_stay() -> None:
    """1 before, 2 and 3 now: none of the current stays lies as low as the one before."""
    assert _distances(np.array([1.0, 2.0, 3.0]), np.array([[0, 1, 1]], dtype=np.uint8)).tolist() == [1.0]


def test_what_two_predictions_of_the_same_stays_are_worth() -> None:
    """Errors of 1, 2, 3, 4, 5 against those of 0, 3, 0, 6, 1; observed minus predicted is the same with signs."""
    outcomes, signs = np.arange(5.0), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    before, now = np.array([1.0, 2, 3, 4, 5]), np.array([0.0, 3, 0, 6, 1])
    found = paired_performance(outcomes - signs * before, outcomes - signs * now, outcomes, np.arange(5), "regression")
    assert (found["error"].reference, found["error"].current) == (3.0, 2.0)
    assert (found["calibration"].reference, found["calibration"].current) == pytest.approx((0.6, -1.6))
