"""Verdicts from evidence, settings, words: without a model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dynamask_mlflow.audit import AuditConfig, Verdict
from dynamask_mlflow.audit.decide import decide
from dynamask_mlflow.audit.evidence import compare
from dynamask_mlflow.audit.measured import Measured
from dynamask_mlflow.audit.publish import with_section
from dynamask_mlflow.audit.statistics import CanaryResult
from dynamask_mlflow.audit.words import chance, joined, percent

NAMES = ("Lactate", "SpO2", "HeartRate", "Temp")
STEPS = 48
CONFIG = AuditConfig(permutations=499, minimum=50)


def stays(n: int, seed: int, mean=(4, 3, 2, 1), late: float = 40.0, names=NAMES, trust: float = 1.0) -> Measured:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.array(mean) * 10.0, size=n)
    h = np.exp(-0.5 * ((np.arange(STEPS) - rng.normal(late, 1, n)[:, None]) / 4) ** 2)
    other = rng.random(n)
    return Measured(
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
            "mean_map": rng.random(n),
        },
        values=rng.normal(size=(n, 4)),
        missing=rng.random((n, 4)),
        attention=np.zeros((STEPS, 4)),
        masks=np.zeros((0, STEPS, 4), dtype=np.float32),
        failures={},
        channel_names=names,
        times=tuple(float(t) for t in range(STEPS)),
    )


def judge(current: Measured, **more) -> Verdict:
    return decide(compare(stays(300, 1), current, CONFIG, **more), CONFIG, model="icu", version="1", window="2026-03")


def test_the_same_again_is_ok_with_its_bounds():
    verdict = judge(stays(150, 2))
    assert verdict.state == "ok"
    assert verdict.violations == ()
    assert verdict.exit_code == 0
    assert "at most" in verdict.reasons[0]


def test_a_move_between_channels_is_told_from_where_to_where():
    verdict = judge(stays(150, 2, mean=(3, 4, 2, 1)))
    assert verdict.state == "drift"
    assert "Attention moved from Lactate to SpO2: 1" in verdict.reasons[0]
    assert "p = .00" in verdict.reasons[0]
    assert verdict.moved_channels == ("Lactate", "SpO2")
    assert verdict.metrics["ndcg"] > 0.9  # the order of two channels is not much to nDCG


def test_a_move_in_time_is_told_by_hours():
    verdict = judge(stays(150, 2, late=34.0))
    assert verdict.state == "drift"
    assert any("hours 36-48 lost" in reason.lower() for reason in verdict.reasons)


def test_masks_that_beat_nobody_are_never_ok():
    verdict = judge(stays(150, 2, trust=0.0))
    assert verdict.state == "inconclusive"
    assert {v.kind for v in verdict.violations} >= {"trust"}


def test_a_dirty_canary_voids_even_a_drift():
    canary = CanaryResult(moved=0.09, moved_hours=0.0, identical=False, clean=False)
    verdict = judge(stays(150, 2, mean=(3, 4, 2, 1)), canary=canary)
    assert verdict.state == "inconclusive"
    assert verdict.violations[0].kind == "canary"


def test_a_clean_canary_that_is_not_identical_is_mentioned():
    canary = CanaryResult(moved=0.0001, moved_hours=0.0, identical=False, clean=True)
    verdict = judge(stays(150, 2), canary=canary)
    assert verdict.state == "ok"
    assert any("last bit" in reason for reason in verdict.reasons)


def test_less_faithful_masks_are_drift():
    verdict = judge(stays(150, 2, trust=3.0))
    assert verdict.state == "drift"
    assert {v.kind for v in verdict.violations} == {"faithfulness"}


def test_weak_drift_adds_up_over_the_audits():
    weak = stays(150, 2, mean=(3.84, 3.16, 2, 1))
    alone = judge(weak)
    config = CONFIG.with_options(alpha=0.002, permutations=999)
    evidence = compare(stays(300, 1), weak, config, history=((0.01, 0.06),) * 4)
    trend = decide(evidence, config)
    assert alone.metrics["moved_channels"] < 0.06
    assert trend.state == "drift"
    assert trend.violations[0].kind in ("trend", "attention")


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
    assert AuditConfig.from_mapping(AuditConfig(alpha=0.02).to_dict()) == AuditConfig(alpha=0.02)


def test_digests_tell_what_masks_depend_on():
    base = AuditConfig()
    assert base.with_options(alpha=0.05).explainer_digest == base.explainer_digest
    assert base.with_options(device="cpu", shard_seconds=9).audit_digest == base.audit_digest
    for change in ({"steps": 9}, {"seed": 1}, {"attention_area": 0.2}, {"deletion": False}, {"operators": ("zero",)}):
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
