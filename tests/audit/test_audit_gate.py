"""The gate: both versions on the same stays, limits from a file, a record on the version."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import mlflow
import numpy as np
import pytest
from audit_hospital import Lactate, register
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score
from test_audit_predictions import ward

from dynamask_mlflow.audit import AuditConfig, AuditError, GateLimits, GateState, run_gate
from dynamask_mlflow.audit import statistics as s
from dynamask_mlflow.audit.gate import _bounded, _check, check_versions
from dynamask_mlflow.audit.models import ModelRef
from dynamask_mlflow.cli import main

OLD, NEW = ModelRef("icu", "1", "m-1"), ModelRef("icu", "2", "m-2")


def judge(before, now, **limits):
    return check_versions(before, now, NEW, OLD, "2026-03", GateLimits(**limits), AuditConfig())


def test_the_same_version_passes_every_check():
    stays = ward(300, 1)
    result = judge(stays, stays)
    assert result.state == GateState.PASSED
    assert {check.name for check in result.checks} >= {"channel", "hours", "lost", "risk", "auroc", "brier"}


def test_a_version_that_predicts_worse_is_refused_with_the_number():
    stays = ward(400, 1)
    noise = np.random.default_rng(0).permutation(stays.numbers["risk"])
    worse = replace(stays, numbers={**stays.numbers, "risk": noise})
    result = judge(stays, worse)
    assert result.state == GateState.REFUSED
    refused = {check.name for check in result.checks if check.state == GateState.REFUSED}
    assert "auroc" in refused
    assert "risk" not in refused
    assert any("The AUROC is" in reason and "The limit is 0.02" in reason for reason in result.reasons)
    assert json.loads(result.to_json())["exit_code"] == 1


def test_within_the_limit_but_unproven_is_a_matter_of_strictness():
    stays = ward(150, 1)
    rng = np.random.default_rng(1)
    close = replace(
        stays, numbers={**stays.numbers, "risk": np.clip(stays.numbers["risk"] + rng.normal(0, 0.1, 150), 0, 1)}
    )
    wide = {"auroc": 0.5, "auprc": 0.5, "brier": 0.5, "calibration": 0.5}
    (auroc,) = [check for check in judge(stays, close, **wide).checks if check.name == "auroc"]
    near = {**wide, "auroc": max(auroc.value, 0) + 0.001}
    assert judge(stays, close, **near).state == GateState.PASSED
    assert judge(stays, close, **near, strict=True).state == GateState.INCONCLUSIVE


def test_few_stays_and_few_outcomes_say_so():
    few = judge(ward(60, 1), ward(60, 1))
    assert few.state == GateState.INCONCLUSIVE
    stays = ward(300, 1)
    unlabelled = replace(stays, numbers={**stays.numbers, "label": np.full(300, np.nan)})
    assert any("0 stays have a known outcome" in reason for reason in judge(unlabelled, unlabelled).reasons)
    with pytest.raises(AuditError, match="the same stays"):
        judge(ward(300, 1), ward(200, 1))


def test_paired_performance_has_scikit_learn_s_values_and_an_interval_around_them():
    rng = np.random.default_rng(2)
    first, second = rng.random(200), rng.random(200)
    outcomes = (rng.random(200) < first).astype(float)
    found = s.paired_performance(first, second, outcomes, np.arange(200))["auroc"]
    assert found.reference == pytest.approx(roc_auc_score(outcomes, first))
    assert found.current == pytest.approx(roc_auc_score(outcomes, second))
    assert found.low < found.difference < found.high < 0


def test_limits_are_checked():
    with pytest.raises(ValueError, match="Did you mean 'auroc'"):
        GateLimits.from_mapping({"aurocc": 0.1})
    with pytest.raises(ValueError, match="Expected brier > 0"):
        GateLimits(brier=-1)


def test_a_version_that_ignores_a_channel_is_refused_and_the_version_says_why(place, tmp_path):
    register(place.folder, Lactate())
    register(place.folder, Lactate(lactate=0.0, heart_rate=1.0))
    mlflow.MlflowClient().set_registered_model_alias("icu", "champion", "1")
    same = run_gate(
        place.source(place.data, "2026-02", model="models:/icu/2"),
        "models:/icu@champion",
        limits=GateLimits(minimum=50),
        config=place.config.with_options(instances=80),
    )
    assert same.state == GateState.PASSED
    (tmp_path / "gate.yaml").write_text("minimum: 50\nrisk: 0.5\n")
    gate = place.gate_command("--model", "models:/icu/3", "--against", "@champion", "--window", "2026-02")
    done = CliRunner().invoke(main, [*gate, "--limits", str(tmp_path / "gate.yaml")])
    assert done.exit_code == 1, done.output
    assert "REFUSED  icu version 3 against version 1, 2026-02" in done.output
    tags = mlflow.MlflowClient().get_model_version("icu", "3").tags
    assert tags["dynamask.gate"].startswith("refused against version 1 on 2026-02")
    assert "Lactate" in tags["dynamask.gate_reasons"]
    assert mlflow.MlflowClient().get_model_version("icu", "2").tags["dynamask.gate"].startswith("passed")


def test_a_version_is_not_compared_with_itself(place):
    """An alias that was moved to the new version already would let everything pass."""
    for against in ("@champion", "models:/icu/1"):
        with pytest.raises(AuditError, match="Expected another version to compare icu version 1 with"):
            run_gate(place.source(place.data, "2026-02", model="models:/icu/1"), against, config=place.config)
    assert "dynamask.gate" not in mlflow.MlflowClient().get_model_version("icu", "1").tags


def test_limits_that_cannot_be_read_are_named(place, tmp_path):
    (tmp_path / "gate.yaml").write_text("auroc: [1, {\n")
    gate = place.gate_command("--model", "models:/icu/1", "--against", "@champion", "--window", "2026-02")
    done = CliRunner().invoke(main, [*gate, "--limits", str(tmp_path / "gate.yaml")])
    assert done.exit_code == 3
    assert "Expected settings as JSON or YAML in" in done.output
    assert "gate.yaml" in done.output


def test_what_cannot_be_computed_does_not_pass():
    assert _check("hours", "", math.nan, 0.1).state == GateState.INCONCLUSIVE
    assert _bounded("auroc", "", math.nan, math.nan, 0.1, GateLimits()).state == GateState.INCONCLUSIVE
