"""Tests chosen for the change they are to find: each finds it, and each is quiet when there is none."""

import numpy as np

from dynamask_mlflow.audit import statistics as s
from dynamask_mlflow.audit.statistics.groups import Group


def labels_of(before: int, now: int, count: int = 999, seed: int = 0):
    everyone = np.arange(before + now)
    return s.permuted_labels(everyone >= before, everyone, count, seed)


def test_an_unchanged_window_is_nearly_always_below_what_the_reference_says_it_can_prove():
    rng, below = np.random.default_rng(0), []
    for time in range(60):
        reference, window = (rng.dirichlet(np.full(12, 0.3), size=n) for n in (300, 150))
        limit = s.provable_move([reference], np.arange(300), 150, seed=time)
        both = np.concatenate([reference, window])
        below.append(s.moved_share(both, labels_of(300, 150, 199, time), np.arange(450)).upper < limit)
    assert np.mean(below) >= 0.92  # .975 by design; 60 windows


def test_more_stays_prove_smaller_moves_and_stays_of_one_patient_count_once():
    shares = np.random.default_rng(1).dirichlet(np.ones(8), size=400)
    few, many = (s.provable_move([shares], np.arange(400), n) for n in (100, 400))
    assert many < few
    twice = np.concatenate([shares, shares])
    assert s.provable_move([twice], np.tile(np.arange(400), 2), 200) > s.provable_move([twice], np.arange(800), 200)


def test_a_fault_in_a_fifth_of_the_stays_shows_in_the_tail_of_the_inputs():
    rng = np.random.default_rng(2)
    before, now = rng.normal(size=(500, 10)), rng.normal(size=(200, 10))
    now[:40, 3] += 2.0
    edges = s.decile_edges(before)
    codes = np.concatenate([s.decile_codes(part, edges) for part in (before, now)])
    test = s.input_test(codes, labels_of(500, 200, 1999))
    assert test.value_q[3] <= 0.05
    assert 0.05 < test.value_gap[3] < 0.2  # as a share of the stays it is small


def test_a_fault_of_a_small_ward_is_found_there_and_nowhere_else():
    rng = np.random.default_rng(3)
    before, now = rng.normal(size=(500, 8)), rng.normal(size=(200, 8))
    ward = np.where(np.arange(700) % 6 == 0, "small", "large")
    now[ward[500:] == "small", 2] += 1.5
    edges = s.decile_edges(before)
    codes = np.concatenate([s.decile_codes(part, edges) for part in (before, now)])
    slices = {name: ward == name for name in ("small", "large")} | {"one stay": np.arange(700) == 600}
    found = s.slice_input_test(codes, labels_of(500, 200, 1999), slices)
    assert {each.slice for each in found} == {"small", "large"}  # a slice of one stay is too small to search
    first = found[0]
    assert (first.slice, first.channel, first.kind) == ("small", 2, "values")
    assert first.p_value <= 0.001
    assert first.shift > 0.2
    assert found[1].p_value > 0.05


def test_a_few_more_outcomes_at_low_risk_are_found_by_their_weight_before_they_move_the_mean():
    rng = np.random.default_rng(4)
    risk = np.clip(rng.beta(0.3, 2.0, size=2400), 0.01, 0.99)
    outcomes = (rng.random(2400) < risk).astype(float)
    extra = (np.arange(2400) >= 2000) & (risk < 0.05) & (rng.random(2400) < 0.06)
    outcomes[extra] = 1.0
    found = s.prediction_test(risk, labels_of(2000, 400, 499), np.arange(2400), outcomes=outcomes)
    shift = found.performance["calibration"]
    assert shift.p_value <= 0.005
    assert found.mean.p_value > 0.05


def test_the_odds_of_a_skewed_risk_are_compared_by_ranks_and_channels_do_not_drown_them():
    rng = np.random.default_rng(5)
    logit = rng.normal(-2.5, 1.9, size=800)
    women = np.arange(800) % 2 == 0
    logit[(np.arange(800) >= 500) & women] += np.log(3)
    numbers = {"predicted": 1 / (1 + np.exp(-logit))}
    numbers |= {f"attention {channel}": rng.random(800) for channel in range(30)}
    members = {Group("sex", "female"): women, Group("sex", "male"): ~women}
    found = s.group_drift(numbers, labels_of(500, 300, 1999), np.arange(800), members)
    moved = [shift for shift in found if shift.p_value <= 0.01]
    assert [(shift.group.value, shift.measure) for shift in moved] == [("female", "predicted")]
    assert moved[0].difference > 0.05  # told as risks, not as ranks
