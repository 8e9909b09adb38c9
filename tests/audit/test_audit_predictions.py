"""The prediction arm: golden values, power and false alarms; warnings and what they are said to fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score
from test_audit_verdict import CONFIG, NAMES, stays

from dynamask_mlflow.audit import State
from dynamask_mlflow.audit import statistics as s
from dynamask_mlflow.audit.comparison import compare_windows
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.verdict import evaluate_verdict


def test_weighted_scores_are_scikit_learn_s():
    rng = np.random.default_rng(0)
    scores, outcomes = np.round(rng.random(200), 2), (rng.random(200) < 0.3).astype(float)
    weights = rng.integers(0, 3, (5, 200))
    found = s.classification_scores(scores, outcomes, weights)
    for row, weight in enumerate(weights):
        drawn = np.repeat(np.arange(200), weight)
        x, y = scores[drawn], outcomes[drawn]
        assert found["auroc"][row] == pytest.approx(roc_auc_score(y, x))
        assert found["auprc"][row] == pytest.approx(average_precision_score(y, x))
        assert found["brier"][row] == pytest.approx(brier_score_loss(y, x))
        assert found["calibration"][row] == pytest.approx(np.mean(y - x))


def test_decile_codes_see_values_beyond_a_constant_on_both_sides():
    reference = np.zeros((20, 1))
    edges = s.decile_edges(reference)
    assert s.decile_codes(np.array([[-1.0], [0.0], [1.0], [np.nan]]), edges).ravel().tolist() == [0, 9, 18, -1]


def risks(rng: np.random.Generator, n: int, shift: float = 0.0) -> np.ndarray:
    return 1 / (1 + np.exp(-rng.normal(-1.8 + shift, 1.2, n)))


def predictions(rng, shift=0.0, outcome_shift=0.0, n=400, count=399, n_before=500):
    before, now = risks(rng, n_before), risks(rng, n, shift)
    scores = np.concatenate([before, now])
    current = np.arange(len(scores)) >= n_before
    truth = np.clip(scores + outcome_shift * current, 0, 1)
    outcomes = (rng.random(len(scores)) < truth).astype(float)
    patients = np.arange(len(scores))
    labels = s.permuted_labels(current, patients, count, int(rng.integers(1 << 30)))
    return s.prediction_test(scores, labels, patients, thresholds=(0.3, 0.5), outcomes=outcomes)


def test_a_lower_risk_is_found_with_its_interval():
    test = predictions(np.random.default_rng(0), shift=-0.8)
    assert test.mean.p_value <= 0.01
    assert test.mean.low < test.mean.difference < test.mean.high < 0
    assert test.above[0.3].current < test.above[0.3].reference
    assert set(test.performance) == {"auroc", "auprc", "brier", "calibration"}
    assert test.performance["calibration"].p_value > 0.05


def test_a_changed_outcome_is_found_by_calibration_alone():
    rng = np.random.default_rng(1)
    tests = [predictions(rng, outcome_shift=0.12, count=199) for _ in range(20)]
    assert np.mean([test.performance["calibration"].p_value <= 0.05 for test in tests]) >= 0.9
    assert np.mean([test.mean.p_value <= 0.05 for test in tests]) <= 0.15


def test_nothing_changed_is_rarely_found():
    rng = np.random.default_rng(2)
    tests = [predictions(rng, n=150, n_before=300, count=199) for _ in range(100)]
    families = {
        "predictions": [min(test.mean.p_value, test.distribution.p_value) for test in tests],
        "performance": [min(s.p_value for k, s in test.performance.items() if k != "calibration") for test in tests],
        "calibration": [test.performance["calibration"].p_value for test in tests],
    }
    for family, p_values in families.items():
        assert np.mean(np.array(p_values) <= 0.05) <= 0.1, family


def test_few_outcomes_give_no_performance():
    rng = np.random.default_rng(3)
    scores, current = risks(rng, 100), np.arange(100) >= 60
    outcomes = np.full(100, np.nan)
    outcomes[:4] = 1
    labels = s.permuted_labels(current, np.arange(100), 99, 0)
    test = s.prediction_test(scores, labels, np.arange(100), outcomes=outcomes)
    assert test.performance == {}
    assert test.labelled == (4, 0)


def test_a_class_that_became_more_frequent_is_found():
    rng = np.random.default_rng(4)
    classes = np.concatenate([rng.integers(0, 3, 300), rng.choice(3, 200, p=[0.1, 0.1, 0.8])]).astype(float)
    labels = s.permuted_labels(np.arange(500) >= 300, np.arange(500), 199, 0)
    test = s.prediction_test(rng.random(500), labels, np.arange(500), classes=classes)
    assert test.classes[2].p_value <= 0.01
    assert test.classes[2].difference > 0.3


def ward(n: int, seed: int, **options) -> ExplainedWindow:
    """Stays with predicted risks and outcomes that fit them."""
    part = stays(n, seed, **options)
    rng = np.random.default_rng(100 + seed)
    risk = risks(rng, n)
    return replace(part, numbers={**part.numbers, "risk": risk, "label": (rng.random(n) < risk).astype(float)})


def judge(now: ExplainedWindow, **options):
    config = CONFIG.with_options(**options)
    return evaluate_verdict(
        compare_windows(ward(300, 11), now, config), config, model="icu", version="1", window="2026-03"
    )


def with_numbers(part: ExplainedWindow, **numbers) -> ExplainedWindow:
    return replace(part, numbers={**part.numbers, **numbers})


def test_nothing_changed_is_still_ok_and_says_what_became_of_the_risk():
    verdict = judge(ward(150, 2))
    assert verdict.state == State.OK, verdict.reasons
    assert any(
        reason.startswith("No move of the mean predicted risk is proven at the level of an audit: .")
        for reason in verdict.reasons
    )
    assert verdict.metrics["predicted"] == pytest.approx(ward(150, 2).numbers["risk"].mean())


def test_a_unit_fault_in_an_important_channel_warns_with_size_direction_and_risk():
    now = ward(150, 2)
    now = with_numbers(replace(now, values=now.values * [0.357, 1, 1, 1] - [2, 0, 0, 0]), risk=now.numbers["risk"] / 2)
    verdict = judge(now)
    assert verdict.state == State.WARNING
    assert verdict.exit_code == 4
    assert verdict.channels == ("Lactate",)
    text = " ".join(verdict.reasons)
    assert "The mean predicted risk fell from" in text
    assert "The inputs of Lactate moved (predictions move by .040 on average without it, 40 % of the attention)" in text
    assert "values are lower in about" in text
    assert "No move of attention is proven" in text or "Attention hardly moved" in text
    assert any("another unit, scale or device for Lactate" in hint for hint in verdict.diagnosis)


def test_an_irrelevant_channel_does_not_warn():
    now = ward(150, 2)
    verdict = judge(replace(now, values=now.values + np.array([0, 0, 0, 1])))
    assert verdict.state == State.OK, verdict.reasons
    assert "Temp" in verdict.moved_inputs


def test_thinner_charting_and_other_patients_are_told_apart():
    now = ward(150, 2)
    thinner = judge(replace(now, missing=np.minimum(1, now.missing + np.array([0.6, 0, 0, 0]))))
    assert thinner.state == State.WARNING
    assert any("fewer measurements" in hint and "Lactate" in hint for hint in thinner.diagnosis)
    patients = judge(replace(now, values=now.values + 0.7))
    assert any("case mix" in hint and "calibrated as before" in hint for hint in patients.diagnosis)


def test_gaps_of_values_in_another_unit_are_not_called_thinner_charting_where_raw_events_tell():
    from dynamask_mlflow.audit.culprit import Culprit
    from dynamask_mlflow.audit.items import Item

    now = ward(150, 2)
    now = replace(now, missing=np.minimum(1, now.missing + np.array([0.6, 0, 0, 0.6])))
    result = compare_windows(ward(300, 11), now, CONFIG)
    fahrenheit = Item("223762", 0.5, 0.5, (37.0, 98.6))
    culprits = (Culprit("Temp (gaps)", "Temp", None, items=(fahrenheit,)),)
    hints = evaluate_verdict(result, CONFIG, culprits).diagnosis
    (unit,) = [hint for hint in hints if "another unit for Temp" in hint]
    assert "item 223762: median 98.6, before 37" in unit
    (thinner,) = [hint for hint in hints if hint.startswith("This fits fewer measurements")]
    assert "Lactate" in thinner
    assert "Temp" not in thinner


def test_an_outcome_that_changed_is_a_warning_that_says_so():
    now = ward(300, 2)
    one_class_only = judge(with_numbers(now, label=np.ones(300)))
    assert one_class_only.state == State.OK
    changed = judge(with_numbers(now, label=(np.random.default_rng(5).random(300) < 0.6).astype(float)))
    assert changed.state == State.WARNING
    assert {violation.kind for violation in changed.violations} == {"performance"}
    assert any("change of the outcome itself" in hint for hint in changed.diagnosis)
    assert any("calibration (observed minus predicted)" in reason for reason in changed.reasons)


def with_outcomes(part: ExplainedWindow, shift: float, seed: int) -> ExplainedWindow:
    """Outcomes that are so much more likely than predicted."""
    risk = part.numbers["risk"]
    return with_numbers(part, label=(np.random.default_rng(seed).random(len(part)) < risk + shift).astype(float))


def test_a_weak_shift_of_the_outcome_is_found_over_the_last_windows_together():
    reference = replace(ward(300, 11), predicted=ward(1000, 12).predictions)
    windows = [with_outcomes(ward(150, seed), 0.07, seed) for seed in (21, 22, 23)]
    first = evaluate_verdict(compare_windows(reference, windows[0], CONFIG), CONFIG)
    assert first.state == State.OK, first.reasons
    last = evaluate_verdict(compare_windows(reference, windows[-1], CONFIG, earlier=windows[:2]), CONFIG)
    assert last.state == State.WARNING
    assert "calibration trend" in {violation.subject for violation in last.violations}
    assert any(
        reason.startswith("Over the last 3 windows together, observed minus predicted") for reason in last.reasons
    )
    quiet = [ward(150, seed) for seed in (21, 22, 23)]
    assert evaluate_verdict(compare_windows(reference, quiet[-1], CONFIG, earlier=quiet[:2]), CONFIG).state == State.OK


def test_stays_that_were_only_predicted_count_in_the_prediction_arm_alone():
    reference, now = ward(300, 11), ward(150, 2)
    more = ward(2000, 12)
    larger = compare_windows(replace(reference, predicted=more.predictions), now, CONFIG)
    smaller = compare_windows(reference, now, CONFIG)
    assert larger.predictions.labelled == (2300, 150)
    assert larger.reference_instances == smaller.reference_instances == 300
    assert larger.drift.p_value == smaller.drift.p_value
    widths = [each.predictions.mean.high - each.predictions.mean.low for each in (larger, smaller)]
    assert widths[0] < 0.95 * widths[1]


def test_masks_that_are_not_trusted_do_not_hide_a_warning():
    now = with_numbers(ward(150, 2, trust=0.0), risk=ward(150, 2).numbers["risk"] / 3)
    verdict = judge(now)
    assert verdict.state == State.WARNING
    assert "trust" in {violation.kind for violation in verdict.violations}


def test_drift_of_attention_outranks_a_warning_and_both_are_told():
    now = with_numbers(ward(150, 2, mean=(3, 4, 2, 1)), risk=ward(150, 2).numbers["risk"] / 3)
    verdict = judge(now)
    assert verdict.state == State.DRIFT
    assert {"attention", "predictions"} <= {violation.kind for violation in verdict.violations}
    assert set(NAMES[:2]) <= set(verdict.channels)


def test_values_are_judged_in_standard_deviations():
    def values(n: int, seed: int, shift: float = 0.0) -> ExplainedWindow:
        part = stays(n, seed)
        numbers = {name: part.numbers[name] for name in ("area", "entropy", "own", "other", "mean_map")}
        rng = np.random.default_rng(seed)
        return replace(
            part, numbers={**numbers, "squared_error": part.numbers["ce"], "risk": rng.normal(50 + shift, 10, n)}
        )

    before = values(300, 1)
    same = evaluate_verdict(compare_windows(before, values(150, 2), CONFIG), CONFIG)
    higher = evaluate_verdict(compare_windows(before, values(150, 2, 8.0), CONFIG), CONFIG)
    assert same.state == State.OK, same.reasons
    assert higher.state == State.WARNING
    assert "predicted value rose from" in higher.reasons[0]


def test_states_agree_everywhere():
    from dynamask_mlflow._states import EXIT_ERROR, STATES
    from dynamask_mlflow.report.data import Verdict as Shown

    assert {state.exit_code for state in State} == {0, 1, 2, 4}
    assert EXIT_ERROR not in {state.exit_code for state in State}
    assert set(STATES) == set(Shown.__args__)
    assert sorted(State, key=lambda state: state.severity) == [
        State.OK, State.INCONCLUSIVE, State.WARNING, State.DRIFT,
    ]  # fmt: skip
