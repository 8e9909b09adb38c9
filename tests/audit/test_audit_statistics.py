"""Golden values by hand; what must hold for any numbers; and how often the tests err, by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamask_mlflow.audit import statistics as s
from dynamask_mlflow.audit.config import levels
from dynamask_mlflow.audit.statistics.permutation import energy_distances, mean_differences, upper_tail
from dynamask_mlflow.audit.statistics.trust import signed_rank

CHANNELS, STEPS = 12, 24


def profiles(rng: np.random.Generator, n: int, shift: int = 0, swap: float = 0.0) -> tuple:
    """Shares of n masks: channels by a Dirichlet draw, hours late in the stay; optionally moved."""
    p = rng.dirichlet(np.linspace(0.2, 2.0, CHANNELS), size=n)
    centre = rng.normal(18, 2.5, size=n)
    centre = np.where(rng.random(n) < 0.2, centre - shift, centre)
    h = np.exp(-0.5 * ((np.arange(STEPS) - centre[:, None]) / 2) ** 2)
    moved = swap * p[:, -1]
    p[:, -1] -= moved
    p[:, 0] += moved
    return p, h / h.sum(axis=1, keepdims=True)


def audit(rng, n_ref=300, n_now=150, shift=0, swap=0.0, count=399):
    (p0, h0), (p1, h1) = profiles(rng, n_ref), profiles(rng, n_now, shift, swap)
    current = np.arange(n_ref + n_now) >= n_ref
    patients = np.arange(n_ref + n_now)
    labels = s.permuted_labels(current, patients, count, int(rng.integers(1 << 30)))
    return s.drift_test(np.concatenate([p0, p1]), np.concatenate([h0, h1]), labels, patients)


def test_shares_of_one_mask_by_hand():
    mask = np.array([[[1.0, 0.0], [0.5, 0.5]]])
    p, h = s.shares(mask)
    np.testing.assert_allclose(p, [[0.75, 0.25]])
    np.testing.assert_allclose(h, [[0.5, 0.5]])
    p, h = s.shares(mask, np.array([[[True, True], [False, True]]]))
    np.testing.assert_allclose(p, [[2 / 3, 1 / 3]])


def test_a_mask_without_mass_looks_nowhere():
    p, h = s.shares(np.zeros((1, 3, 2)))
    assert np.isnan(p).all()
    assert np.isnan(h).all()


def test_blocks_sum_the_hours_and_keep_the_rest():
    np.testing.assert_allclose(s.in_blocks(np.arange(5.0)[None], 2), [[1, 5, 4]])


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(1, 5), st.integers(0, 1000))
def test_patients_keep_their_stays_together(patients, most, count, seed):
    rng = np.random.default_rng(seed)
    names = np.repeat(np.arange(2 * patients), rng.integers(1, most + 1, 2 * patients))
    current = names % 2 == 0
    labels = s.permuted_labels(current, names, count, seed)
    np.testing.assert_array_equal(labels[0], current)
    for row in labels:
        by_patient = [set(row[names == name]) for name in np.unique(names)]
        assert all(len(values) == 1 for values in by_patient)
        assert sum(values == {1.0} for values in by_patient) == patients


def test_a_patient_seen_in_both_windows_swaps_them():
    names = np.array(["a", "a", "b", "c"])
    current = np.array([False, True, False, True])
    labels = s.permuted_labels(current, names, 200, 0)
    assert set(map(tuple, labels[:, :2])) == {(0.0, 1.0), (1.0, 0.0)}
    assert (labels[:, 2:].sum(axis=1) == 1).all()


def test_an_empty_window_cannot_be_permuted():
    with pytest.raises(ValueError, match="one is empty"):
        s.permuted_labels(np.zeros(3, dtype=bool), np.arange(3), 9, 0)


def test_energy_distance_by_hand():
    points = np.array([[0.0], [1.0], [3.0]])
    labels = np.array([[0, 0, 1]], dtype=np.float32)
    # E|X-Y| = (3 + 2) / 2, E|X-X'| = 2 * 1 / 4, E|Y-Y'| = 0
    np.testing.assert_allclose(energy_distances(points, labels), [2 * 2.5 - 0.5], rtol=1e-6)


def test_mean_differences_by_hand():
    labels = np.array([[1, 0, 0]], dtype=np.float32)
    np.testing.assert_allclose(mean_differences(np.array([[5.0], [1.0], [2.0]]), labels), [[3.5]])


def test_p_values_of_a_permutation_distribution_by_hand():
    np.testing.assert_allclose(upper_tail(np.array([3.0, 1.0, 3.0, 2.0])), [0.5, 1.0, 0.5, 0.75])


def test_step_down_by_hand():
    observed_and_drawn = np.array([[3.0, 1.0], [0.5, 2.0], [1.0, 0.5], [0.1, 0.2]])
    # channel 0: maxima (3, 2, 1, .2) >= 3 in 1 of 4; channel 1 alone: (1, 2, .5, .2) >= 1 in 2 of 4
    np.testing.assert_allclose(s.step_down(observed_and_drawn), [0.25, 0.5])


def test_adjustments_by_hand():
    np.testing.assert_allclose(s.benjamini_hochberg([0.01, 0.04, 0.03]), [0.03, 0.04, 0.04])
    np.testing.assert_allclose(s.holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=20))
def test_adjusted_p_values_keep_the_order_and_never_shrink(p):
    for adjust in (s.benjamini_hochberg, s.holm):
        q = adjust(p)
        assert (q >= np.asarray(p) - 1e-12).all()
        assert (np.diff(q[np.argsort(p, kind="stable")]) >= -1e-12).all()


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_by_hand_agrees_with_the_libraries(seed):
    from sklearn.metrics import ndcg_score
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(seed)
    p, before, now = rng.random(9), rng.random(7), rng.random(7)
    np.testing.assert_allclose(s.holm(p), multipletests(p, method="holm")[1])
    assert s.ndcg(before, now) == pytest.approx(ndcg_score(before[None], now[None]))


def test_total_variation_by_hand():
    assert s.total_variation([0.5, 0.3, 0.2], [0.3, 0.5, 0.2]) == pytest.approx(0.2)


def test_ndcg_by_hand():
    reference = [3.0, 2.0, 1.0]
    ideal = 3 + 2 / np.log2(3) + 1 / 2
    assert s.ndcg(reference, reference) == pytest.approx(1)
    assert s.ndcg(reference, [1, 2, 3]) == pytest.approx((1 + 2 / np.log2(3) + 3 / 2) / ideal)


def test_causes_add_up_exactly():
    rng = np.random.default_rng(0)
    cells = rng.random((4, 7))
    split = s.split_causes(*cells)
    np.testing.assert_allclose(split.total, cells[3] - cells[0], atol=1e-15)
    only_data = s.split_causes(cells[0], cells[1], cells[0], cells[1]).sizes()
    assert only_data["model"] == 0
    assert only_data["interaction"] == pytest.approx(0, abs=1e-15)
    assert only_data["data"] == pytest.approx(s.total_variation(cells[0], cells[1]))


def test_signed_rank_test_agrees_with_its_table():
    # n = 10, all positive: W = 55, mean 27.5, variance 96.25; z = (55 - 27.5 - .5) / 9.811
    assert signed_rank(np.arange(1.0, 11)) == pytest.approx(0.00296, abs=2e-5)
    assert signed_rank(-np.arange(1.0, 11)) > 0.99
    assert signed_rank(np.zeros(5)) == 1.0


def test_trust_needs_enough_pairs_and_both_rivals_beaten():
    rng = np.random.default_rng(0)
    own, other = rng.random(60) + 1, rng.random(60)
    assert s.check_trust(own, other, other).trusted
    assert not s.check_trust(own[:15], other[:15], other[:15]).trusted
    assert not s.check_trust(own, other, own + rng.normal(0, 0.01, 60)).trusted


def test_the_canary_is_exact_and_sees_swapped_channels():
    rng = np.random.default_rng(0)
    masks = rng.random((20, 6, 4)) * np.array([4, 1, 1, 0.2])
    kept = s.shares(masks)
    same = s.compare_refit(masks, masks.copy(), kept, s.shares(masks))
    assert same.clean
    assert same.identical
    assert same.moved == same.each == 0
    swapped = masks[:, :, [3, 1, 2, 0]]
    dirty = s.compare_refit(masks, swapped, kept, s.shares(swapped))
    assert not dirty.clean
    assert dirty.moved > 0.1


def test_the_canary_sees_what_cancels_out_over_the_anchors_and_forgives_the_last_bit():
    rng = np.random.default_rng(0)
    masks = rng.random((40, 6, 4))
    kept = s.shares(masks)

    def refit(size: float, **options):
        other = masks * (1 + size * rng.choice([-1, 1], masks.shape))
        return s.compare_refit(masks, other, kept, s.shares(other), **options)

    noise = s.rounding_noise(kept, s.shares(masks * (1 + 1e-6 * rng.choice([-1, 1], masks.shape))))
    bits = refit(1e-6, limit=3 * noise)
    assert bits.clean
    assert not bits.identical
    coarse = refit(1e-3, limit=3 * noise)
    assert coarse.moved < 0.005  # the mean profile hardly moves
    assert not coarse.clean


def test_other_weights_are_never_clean():
    masks = np.ones((5, 6, 4))
    kept = s.shares(masks)
    changed = {"weights": ("a", "b")}
    assert not s.compare_refit(masks, masks, kept, kept, changed=changed).clean
    assert s.compare_refit(masks, masks, kept, kept, changed={"torch": ("2.12", "2.13")}).clean


def test_noise_floor_is_zero_for_equal_fits_and_grows_with_noise():
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.ones(5), size=30)
    assert s.noise_floor([base, base]) == {"moved": 0.0, "variance_share": 0.0}
    assert s.noise_floor([base, base + rng.normal(0, 0.02, base.shape)])["variance_share"] > 0


def test_a_year_of_audits_spends_its_chance_and_no_more():
    per_audit = levels(0.05, 12)
    assert {"attention", "predictions", "performance", "inputs", "slices"} < set(per_audit)
    assert 12 * sum(per_audit.values()) == pytest.approx(0.05)
    assert levels(0.05, 52)["attention"] < per_audit["attention"]
    with pytest.raises(ValueError, match="at least 1 audit"):
        levels(0.05, 0)


def test_a_year_with_one_reference_alarms_no_more_than_it_may():
    # The reference is shared: its bad luck is in every audit of the year, and Boole's bound does not care.
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(40):
        p0, h0 = profiles(rng, 200)
        for month in range(6):
            p1, h1 = profiles(rng, 80)
            current = np.arange(280) >= 200
            draws = s.Permutations(current, np.arange(280), 399, month)
            test = s.staged_drift_test(np.concatenate([p0, p1]), np.concatenate([h0, h1]), draws)
            if test.p_value <= 0.3 / 6:
                alarms += 1
                break
    assert alarms <= 40 * 0.3 + 2 * np.sqrt(40 * 0.3 * 0.7)


def test_more_permutations_refine_what_a_few_leave_open():
    rng = np.random.default_rng(8)
    (p0, h0), (p1, h1) = profiles(rng, 200), profiles(rng, 100, swap=0.6)
    current = np.arange(300) >= 200
    draws = s.Permutations(current, np.arange(300), 5999, 0)
    np.testing.assert_array_equal(draws.all[: len(draws.few)], draws.few)
    assert draws.all.shape == (6000, 300)
    test = s.staged_drift_test(np.concatenate([p0, p1]), np.concatenate([h0, h1]), draws)
    assert test.p_value <= 3 / 6000


def test_large_windows_keep_the_energy_distance_affordable(monkeypatch):
    from dynamask_mlflow.audit.statistics import permutation

    rng = np.random.default_rng(9)
    points = rng.normal(size=(60, 3)) + np.arange(60)[:, None] // 30
    labels = s.permuted_labels(np.arange(60) >= 30, np.arange(60), 199, 0)
    whole = permutation.energy_distances(points, labels)
    monkeypatch.setattr(permutation, "_MOST", 20)
    part = permutation.energy_distances(points, labels)
    assert upper_tail(whole)[0] == upper_tail(part)[0] == pytest.approx(1 / 200)
    assert not np.allclose(whole, part)


def test_input_arm_names_the_channel_whose_values_or_gaps_moved():
    rng = np.random.default_rng(0)
    n = 300
    values, missing = rng.normal(size=(n, 4)), rng.random((n, 4))
    current = np.arange(n) >= 200
    values[current, 2] += 1
    missing[current, 0] = 1 - 0.2 * missing[current, 0]
    values[:, 3] = np.nan
    labels = s.permuted_labels(current, np.arange(n), 1999, 0)
    both = np.concatenate([values, missing], axis=1)
    test = s.input_test(s.decile_codes(both, s.decile_edges(both[:200])), labels)
    assert test.moved(0.05) == (0, 2)
    assert test.value_q[2] <= 0.05 < test.value_q[0]
    assert test.missing_q[0] <= 0.05 < test.missing_q[2]


def test_quality_tells_which_number_moved():
    rng = np.random.default_rng(0)
    n = 300
    current = np.arange(n) >= 200
    area, ce = rng.random(n), rng.random(n)
    ce[current] -= 0.5
    labels = s.permuted_labels(current, np.arange(n), 499, 0)
    found = s.quality_test({"area": area, "ce": ce, "acc": np.full(n, np.nan)}, labels, np.arange(n))
    assert set(found) == {"area", "ce"}
    assert found["ce"].p_value <= 0.01 < found["area"].p_value
    assert found["ce"].effect < -1
    assert found["ce"].low < -0.5 < found["ce"].high


def test_an_unchanged_window_rarely_alarms_and_its_bounds_reach_zero():
    rng = np.random.default_rng(1)
    tests = [audit(rng) for _ in range(120)]
    assert np.mean([t.p_value <= 0.05 for t in tests]) <= 0.12
    assert np.mean([t.channels.low == 0 for t in tests]) >= 0.9
    assert np.mean([min(t.channel_p.min(), t.hour_p.min()) <= 0.05 for t in tests]) <= 0.2


def test_a_fifth_of_the_masks_six_hours_earlier_is_found_along_time():
    rng = np.random.default_rng(2)
    tests = [audit(rng, n_now=100, shift=6) for _ in range(20)]
    assert np.mean([t.p_value <= 0.01 and t.hours.moved >= 0.025 for t in tests]) >= 0.85


def test_moved_channels_are_named_with_their_direction():
    test = audit(np.random.default_rng(3), swap=0.5)
    assert test.p_value <= 0.01
    assert test.channel_p[0] <= 0.01
    assert test.channel_p[-1] <= 0.01
    assert test.channel_shift[0] > 0 > test.channel_shift[-1]
    assert test.channels.low < 0.5 * 2 / 13.2 < test.channels.high


def test_the_upper_bound_covers_the_true_share_moved():
    rng = np.random.default_rng(4)
    truth = 0.3 * 2.0 / np.linspace(0.2, 2.0, CHANNELS).sum()
    covered = [audit(rng, swap=0.3, count=199).channels.upper >= truth for _ in range(80)]
    assert np.mean(covered) >= 0.88


def test_stays_of_one_patient_do_not_count_as_independent():
    rng = np.random.default_rng(5)
    naive, honest = [], []
    for _ in range(40):
        p, h = profiles(rng, 90)
        p, h = np.repeat(p, 5, axis=0), np.repeat(h, 5, axis=0)
        patients, current = np.repeat(np.arange(90), 5), np.repeat(np.arange(90) >= 60, 5)
        for units, found in ((np.arange(450), naive), (patients, honest)):
            labels = s.permuted_labels(current, units, 199, 0)
            found.append(s.drift_test(p, h, labels, units).p_value <= 0.05)
    assert np.mean(naive) > 0.4
    assert np.mean(honest) <= 0.15


def test_versions_on_the_same_instances():
    rng = np.random.default_rng(6)
    old = profiles(rng, 50)
    assert s.compare_versions(old, old).channels == 0
    p = old[0].copy()
    p[:, 3] += 0.06
    p[:, 4] -= 0.06
    shift = s.compare_versions(old, (p, old[1]))
    assert shift.largest == pytest.approx(0.06)
    assert shift.channel in (3, 4)
    with pytest.raises(ValueError, match="same instances"):
        s.compare_versions(old, profiles(rng, 49))
