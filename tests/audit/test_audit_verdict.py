"""Verdicts from result, settings, words: without a model."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from dynamask_mlflow.audit import AuditConfig, Verdict
from dynamask_mlflow.audit.comparison import compare_windows
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.statistics import CanaryResult
from dynamask_mlflow.audit.verdict import chance, evaluate_verdict, joined, percent
from dynamask_mlflow.audit.version_state import with_section

NAMES = ("Lactate", "SpO2", "HeartRate", "Temp")
STEPS = 48
CONFIG = AuditConfig(permutations=499, audits_per_year=1, minimum=50)


def stays(n: int, seed: int, mean=(4, 3, 2, 1), late: float = 40.0, names=NAMES, trust: float = 1.0) -> ExplainedWindow:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.array(mean) * 10.0, size=n)
    h = np.exp(-0.5 * ((np.arange(STEPS) - rng.normal(late, 1, n)[:, None]) / 4) ** 2)
    other = rng.random(n)
    return ExplainedWindow(
        ids=np.arange(n).astype(str),
        patients=np.char.add(f"{seed}-", np.arange(n).astype(str)),
        by_channel=p,
        by_time=h / h.sum(axis=1, keepdims=True),
        numbers={
            "area": rng.random(n),
            "entropy": rng.random(n),
            "ce": other + trust,
            "acc": rng.random(n),
            "other": other,
            "own": other + trust,
            "mean_map": rng.random(n),
        },
        values=rng.normal(size=(n, 4)),
        missing=rng.random((n, 4)),
        codes=np.zeros((n, 0), dtype=np.int8),
        effects=p / 10,
        attention=np.zeros((STEPS, 4)),
        masks=np.zeros((0, STEPS, 4), dtype=np.float32),
        failures={},
        channel_names=names,
        times=tuple(float(t) for t in range(STEPS)),
    )


def judge(current: ExplainedWindow, **more) -> Verdict:
    return evaluate_verdict(
        compare_windows(stays(300, 1), current, CONFIG, **more), CONFIG, model="icu", version="1", window="2026-03"
    )


def test_the_same_again_is_ok_with_its_bounds():
    verdict = judge(stays(150, 2))
    assert verdict.state == "ok"
    assert verdict.violations == ()
    assert verdict.exit_code == 0
    assert "at most" in verdict.reasons[0]


def test_a_move_between_channels_is_told_from_where_to_where():
    verdict = judge(stays(150, 2, mean=(3, 4, 2, 1)))
    assert verdict.state == "drift"
    assert re.search(r"moved between channels, 1\d % of the total \[.*\]", verdict.reasons[0])
    assert re.search(r"SpO2 \+\d+\.\d points \[.*\]", verdict.reasons[0])
    assert re.search(r"Lactate -\d+\.\d points \[-\d+, -.*\]", verdict.reasons[0])
    assert "p = .00" in verdict.reasons[0]
    assert verdict.moved_channels == ("Lactate", "SpO2")
    assert verdict.metrics["ndcg"] > 0.9  # the order of two channels is not much to nDCG


def test_a_move_within_the_noise_of_the_explainer_is_no_drift():
    moved = stays(150, 2, mean=(3, 4, 2, 1))
    assert judge(moved, noise={"channels": 0.01, "hours": 0.01}).state == "drift"
    quiet = judge(moved, noise={"channels": 0.2, "hours": 0.2})
    assert quiet.state == "inconclusive"
    assert quiet.metrics["noise_channels"] == 0.2


def test_a_move_in_time_is_told_by_hours():
    verdict = judge(stays(150, 2, late=34.0))
    assert verdict.state == "drift"
    assert any("hours 36-48 lost" in reason.lower() for reason in verdict.reasons)


def test_masks_that_beat_nobody_are_never_ok():
    verdict = judge(stays(150, 2, trust=0.0))
    assert verdict.state == "inconclusive"
    assert {v.kind for v in verdict.violations} >= {"trust"}


def canary(**changes) -> CanaryResult:
    clean = {"moved": 0.0, "moved_hours": 0.0, "each": 0.0, "limit": 0.0003, "identical": True, "clean": True}
    return CanaryResult(**{**clean, **changes})


def test_a_dirty_canary_voids_even_a_drift():
    dirty = canary(moved=0.09, identical=False, clean=False)
    verdict = judge(stays(150, 2, mean=(3, 4, 2, 1)), canary=dirty)
    assert verdict.state == "inconclusive"
    assert verdict.violations[0].kind == "canary"
    assert verdict.metrics["invalidated"] == 1


@pytest.mark.parametrize(
    ("changed", "subject", "words"),
    [
        ({"weights": ("a", "b")}, "model", "its weights are not those of the reference"),
        ({"torch": ("2.12", "2.13")}, "runtime", "The runtime changed (torch 2.12 -> 2.13)"),
        ({}, "anchors", "recorded as the same"),
        (None, "anchors", "under the same name."),
    ],
)
def test_a_dirty_canary_names_what_changed(changed, subject, words):
    verdict = judge(stays(150, 2), canary=canary(each=0.001, identical=False, clean=False, changed=changed))
    assert verdict.state == "inconclusive"
    assert verdict.violations[0].subject == subject
    assert words in verdict.reasons[0]


def test_a_clean_canary_that_is_not_identical_is_mentioned():
    verdict = judge(stays(150, 2), canary=canary(each=0.0001, identical=False, changed={"threads": ("1", "2")}))
    assert verdict.state == "ok"
    assert any("last bit (threads 1 -> 2)" in reason for reason in verdict.reasons)


def test_less_faithful_masks_are_drift():
    verdict = judge(stays(150, 2, trust=3.0))
    assert verdict.state == "drift"
    assert {v.kind for v in verdict.violations} == {"faithfulness"}


def test_weak_drift_adds_up_over_the_audits():
    config = CONFIG.with_options(effect=0.06, trend_effect=0.01)
    weak = [stays(150, seed, mean=(3.7, 3.3, 2, 1)) for seed in (2, 3, 4)]
    alone = evaluate_verdict(compare_windows(stays(300, 1), weak[0], config), config)
    together = evaluate_verdict(compare_windows(stays(300, 1), weak[0], config, earlier=weak[1:]), config)
    assert alone.state != "drift"
    assert together.state == "drift"
    assert together.violations[0].kind == "trend"
    assert "over the last 3 windows: attention moved" in together.reasons[0]
    assert together.moved_channels[:2] == ("Lactate", "SpO2")
    assert together.causes == ("data",)


def test_a_move_within_a_block_is_told_by_its_hours():
    # From hour 40 to its neighbour: sums over blocks of six hours hardly change.
    before, now = stays(300, 1), stays(150, 2)
    moved = np.zeros((150, STEPS))
    moved[:, 40], moved[:, 39] = -0.08, 0.08
    verdict = evaluate_verdict(compare_windows(before, replace(now, by_time=now.by_time + moved), CONFIG), CONFIG)
    (told,) = [reason for reason in verdict.reasons if "moved in time" in reason]
    assert "ours 40-41 lost 8" in told
    assert "hours 39-40 gained 8" in told


def test_other_channels_cannot_be_compared():
    verdict = judge(stays(150, 2, names=("Lactate", "SpO2", "HeartRate", "Bilirubin")))
    assert verdict.state == "inconclusive"
    assert "Bilirubin" in verdict.reasons[0]


def test_few_stays_are_too_few():
    verdict = judge(stays(30, 2))
    assert verdict.state == "inconclusive"
    assert verdict.violations[0].kind == "sample"


def test_a_verdict_survives_json_and_names_its_finding():
    verdict = judge(stays(150, 2, mean=(3, 4, 2, 1)))
    again = Verdict.from_dict(json.loads(verdict.to_json()))
    assert again.reasons == verdict.reasons
    assert again.fingerprint == verdict.fingerprint
    assert judge(stays(150, 3, mean=(3, 4, 2, 1))).fingerprint == verdict.fingerprint
    assert judge(stays(150, 2)).fingerprint != verdict.fingerprint
    assert json.loads(verdict.violations_json())["violations"][0]["low"] > 0


def test_settings_are_checked_by_name_and_value():
    with pytest.raises(ValueError, match="Did you mean 'tolerance'"):
        AuditConfig.from_mapping({"tolerence": 0.1})
    for options in ({"alpha": 2}, {"permutations": 10}, {"reference": "last"}, {"minimum": 0}, {"max_failures": 2}):
        with pytest.raises(ValueError, match="Expected"):
            AuditConfig(**options)
    assert AuditConfig.from_mapping(AuditConfig(alpha=0.03).to_dict()) == AuditConfig(alpha=0.03)


def test_digests_tell_what_masks_depend_on():
    base = AuditConfig()
    assert base.with_options(alpha=0.05).explainer_digest == base.explainer_digest
    assert base.with_options(device="cpu", shard_seconds=9).audit_digest == base.audit_digest
    for change in ({"steps": 9}, {"seed": 1}, {"attention_area": 0.2}, {"deletion": True}, {"operators": ("zero",)}):
        assert base.with_options(**change).explainer_digest != base.explainer_digest


def test_the_section_replaces_itself_and_nothing_else():
    first = with_section("By Ada.", "one")
    second = with_section(first + "\nMore by Ada.", "two \\1")
    assert "By Ada." in second
    assert "More by Ada." in second
    assert "one" not in second
    assert second.count("<!-- dynamask audit -->") == 1


def test_words():
    assert percent(0.142) == "14 %"
    assert percent(0.025) == "2.5 %"
    assert chance(0.0005) == "p < .001"
    assert joined(["a", "b", "c", "d"]) == "a, b, c and 1 more"
    assert joined(["a", "b"]) == "a and b"
