"""Whole audits of a small hospital, against a real store."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pytest
from audit_hospital import Lactate, hospital, register
from click.testing import CliRunner

from dynamask_mlflow.audit import (
    AuditError,
    NoDataError,
    ShardSpec,
    audit_history,
    build_reference,
    compare_audits,
    fit_shard,
    plan_audit,
    prepare_audit,
    report_audit,
    request_from_dict,
    run_audit,
)
from dynamask_mlflow.audit.shards import read_spec
from dynamask_mlflow.cli import main

MODEL = "models:/icu@champion"


def artifacts(run_id: str) -> set[str]:
    return {file.path for file in mlflow.MlflowClient().list_artifacts(run_id, "dynamask")}


def test_an_unchanged_month_is_proven_ok_and_marked_everywhere(place):
    verdict = run_audit(MODEL, place.data, "2026-02", **place.options())
    assert verdict.state == "ok", verdict.reasons
    assert "hardly moved" in verdict.reasons[0]
    assert verdict.metrics["canary_moved"] == 0
    assert verdict.metrics["canary_identical"] == 1
    version = mlflow.MlflowClient().get_model_version("icu", "1")
    assert version.tags["dynamask.verdict"] == "ok"
    assert version.tags["dynamask.reference_run_id"] == verdict.reference_run_id
    assert "dynamask.audited_at" in version.tags
    assert "Explanation audit: ok" in version.description
    (entry,) = audit_history("dynamask-audits", "icu")
    names = ("audit.html", "verdict.json", "violations.json", "measured.npz", "profile.json", "config.json")
    assert {f"dynamask/{name}" for name in names} <= artifacts(entry.run_id)


def test_a_rerun_fits_nothing_and_changes_nothing(place):
    first = run_audit(MODEL, place.data, "2026-02", **place.options())
    done = []
    second = run_audit(MODEL, place.data, "2026-02", progress=done.append, **place.options())
    assert all(shard.skipped for shard in done)
    assert second == first
    (entry,) = audit_history("dynamask-audits", "icu")
    client = mlflow.MlflowClient()
    for key in client.get_run(entry.run_id).data.metrics:
        assert len(client.get_metric_history(entry.run_id, key)) == 1
    description = client.get_model_version("icu", "1").description
    assert description.count("Explanation audit") == 1


def test_a_rerun_that_fails_leaves_what_was_finished_as_it_is(place, monkeypatch):
    client = mlflow.MlflowClient()
    pinned = client.get_model_version("icu", "1").tags["dynamask.reference_run_id"]
    monkeypatch.setattr("dynamask_mlflow.audit.reference.plan_reference", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_reference(MODEL, place.data, "2026-01", **place.options())
    assert client.get_run(pinned).info.status == "FINISHED"


def test_a_store_that_cannot_be_written_is_named_before_a_run_is_opened(place, tmp_path):
    (tmp_path / "file").write_text("no folder")
    before = len(mlflow.search_runs(search_all_experiments=True))
    with pytest.raises(AuditError, match=r"Expected a store that can be written, .* --store"):
        run_audit(MODEL, place.data, "2026-02", config=place.config, store=str(tmp_path / "file"))
    assert len(mlflow.search_runs(search_all_experiments=True)) == before


def test_attention_that_left_a_channel_is_drift_in_plain_words(place):
    verdict = run_audit(MODEL, place.data, "2026-03", **place.options())
    assert verdict.state == "drift"
    assert "Lactate" in verdict.moved_channels
    assert re.search(r"of the total \[.*Lactate -\d+\.\d points \[", verdict.reasons[0])
    assert any("mean predicted risk fell from" in reason for reason in verdict.reasons)
    assert {"data", "inputs", "predictions"} == set(verdict.causes)
    (entry,) = audit_history("dynamask-audits", "icu")
    path = mlflow.artifacts.download_artifacts(run_id=entry.run_id, artifact_path="dynamask/violations.json")
    stored = json.loads(Path(path).read_text())
    assert stored["state"] == "drift"
    assert stored["violations"][0]["kind"] == "attention"
    page = mlflow.artifacts.download_artifacts(run_id=entry.run_id, artifact_path="dynamask/audit.html")
    text = Path(page).read_text()
    assert "2026-03" in text
    assert '"explained":80,' in text.replace(" ", "")  # of which it shows five


def test_a_unit_fault_in_the_second_channel_is_never_ok_and_says_what_it_does_to_the_risk(place, tmp_path):
    data = hospital()
    month = data.windows == "2026-02"
    data.x[month, :, 0] = 0.357 * data.x[month, :, 0] - 1.9  # heart rate x .357, in units of its own spread
    verdict = run_audit(MODEL, str(data.save(tmp_path / "unit")), "2026-02", **place.options())
    assert verdict.state in ("warning", "drift")
    assert verdict.exit_code in (1, 4)
    text = " ".join(verdict.reasons)
    assert re.search(r"mean predicted risk fell from \.\d+ to \.\d+ \(-\.\d+ \[-\.\d+, -\.\d+\]", text)
    assert "The inputs of HeartRate moved (predictions move by" in text
    assert any("another unit, scale or device for HeartRate" in hint for hint in verdict.diagnosis)
    version = mlflow.MlflowClient().get_model_version("icu", "1")
    assert version.tags["dynamask.verdict"] == verdict.state
    assert version.tags["dynamask.alert"].startswith(str(verdict.state))


def test_a_channel_of_two_values_that_is_as_it_was_has_not_moved(place, tmp_path):
    whole = hospital()
    x = whole.x.copy()
    x[:, :, 3] = np.where(np.arange(len(x)) % 2 == 0, -1.1437266, 0.8743308)[:, None]  # sex, standardised
    data = str(replace(whole, x=x).save(tmp_path / "sex"))
    options = place.options(anchors=0, reference_instances=80, instances=60)
    build_reference(MODEL, data, "2026-01", **options)
    assert "Temp" not in run_audit(MODEL, data, "2026-02", **options).moved_inputs


def test_a_model_that_fails_on_half_of_the_stays_is_inconclusive(place):
    verdict = run_audit(MODEL, place.data, "2026-04", **place.options(instances=60))
    assert verdict.state == "inconclusive"
    assert verdict.violations[0].kind == "failures"
    assert "could not be explained" in verdict.reasons[0]
    assert any(re.search(r"left out: \d+ could not be explained \(ModelError\)", r) for r in verdict.reasons)


def test_too_few_stays_are_inconclusive_and_none_are_an_error(place):
    verdict = run_audit(MODEL, place.data, "2026-05", **place.options())
    assert verdict.state == "inconclusive"
    assert "too few" in verdict.reasons[0]
    with pytest.raises(NoDataError, match=r"2031-01.*2026-01 to 2026-06"):
        run_audit(MODEL, place.data, "2031-01", **place.options())


def test_what_cannot_be_compared_is_inconclusive_without_a_fit(place, tmp_path):
    other = run_audit(MODEL, place.data, "2026-02", **place.options(steps=9))
    assert other.state == "inconclusive"
    assert "other settings" in other.reasons[0]
    data = str(hospital(("HeartRate", "Lactate", "SpO2", "Bilirubin")).save(tmp_path / "other"))
    channels = run_audit(MODEL, data, "2026-02", **place.options())
    assert channels.state == "inconclusive"
    assert "Bilirubin" in channels.reasons[0]


def test_missing_aliases_models_and_references_are_told(place):
    with pytest.raises(AuditError, match=r"no such version; its aliases: champion"):
        run_audit("models:/icu@challenger", place.data, "2026-02", **place.options())
    with pytest.raises(AuditError, match="there is none"):
        run_audit("models:/nobody@champion", place.data, "2026-02", **place.options())
    register(place.folder, Lactate(), name="fresh")
    with pytest.raises(AuditError, match="audit reference"):
        run_audit("models:/fresh@champion", place.data, "2026-02", **place.options())
    with pytest.raises(AuditError, match="window such as"):
        run_audit(MODEL, place.data, "March", **place.options())


def test_a_new_version_that_ignores_a_channel_is_blamed_on_the_model(place):
    assert register(place.folder, Lactate(lactate=0.0, heart_rate=1.0)) == "2"
    verdict = run_audit(MODEL, place.data, "2026-02", **place.options())
    assert verdict.state == "drift"
    assert verdict.causes == ("model",)
    assert any("hardly looks at Lactate" in reason for reason in verdict.reasons)
    assert verdict.metrics["cause_model"] > verdict.metrics["cause_data"]
    assert any(
        reason.startswith("For the same stays of the window the mean predicted risk is") for reason in verdict.reasons
    )
    assert any("is asked of version 1" in reason for reason in verdict.reasons)
    (entry,) = audit_history("dynamask-audits", "icu", "2")
    page = mlflow.artifacts.download_artifacts(run_id=entry.run_id, artifact_path="dynamask/audit.html")
    assert "Asked of version 1, data alone. Attention moved between channels" in Path(page).read_text()
    split = compare_audits(
        place.source(place.data, "2026-03"),
        "models:/icu/1",
        "2026-02",
        config=place.config.with_options(reference_instances=80),
    )
    assert set(split.causes) == {"data", "model", "inputs", "predictions"}


def test_a_model_replaced_under_the_same_version_kills_the_canary(place):
    request = prepare_audit(place.source(place.data, "2026-02"), place.config)
    uris = plan_audit(request)
    canary = next(uri for uri in uris if uri.endswith("-canary.json"))
    spec = json.loads(Path(canary).read_text())
    register(place.folder, Lactate(lactate=0.2, heart_rate=1.0), name="impostor")
    Path(canary).write_text(json.dumps({**spec, "model": {"name": "impostor", "version": "1", "source": "x"}}))
    for uri in uris:
        fit_shard(uri)
    verdict = report_audit(request, uris).verdict
    assert verdict.state == "inconclusive"
    assert verdict.violations[0].kind == "canary"


def test_changed_inputs_of_an_anchor_are_noticed(place, tmp_path):
    changed = hospital()
    changed.x[:170] = changed.x[:170][:, :, [1, 0, 2, 3]]
    data = str(changed.save(tmp_path / "swapped"))
    verdict = run_audit(MODEL, data, "2026-02", **place.options())
    assert verdict.state == "inconclusive"
    assert "stored anchors are no longer the same" in verdict.reasons[0]


def test_a_rolling_reference_is_the_last_complete_audit(place):
    options = place.options(reference="rolling")
    run_audit(MODEL, place.data, "2026-03", **options)
    after = run_audit(MODEL, place.data, "2026-06", **options)
    pinned = run_audit(MODEL, place.data, "2026-06", **place.options())
    assert after.state == "drift"  # back to normal is a change against the month before
    assert pinned.state == "ok"


def test_a_month_that_was_told_is_no_part_of_a_later_trend(place):
    options = place.options(trend_window=2)
    assert run_audit(MODEL, place.data, "2026-02", **options).state == "ok"
    assert run_audit(MODEL, place.data, "2026-03", **options).state == "drift"
    after = run_audit(MODEL, place.data, "2026-06", **options)
    assert after.state == "ok", after.reasons
    assert after.metrics["trend_windows"] == 2  # February and June


def test_steps_return_what_json_can_hold(place):
    request = prepare_audit(place.source(place.data, "2026-02"), place.config)
    again = request_from_dict(json.loads(json.dumps(request.to_dict(), allow_nan=False)))
    assert again == request
    uris = plan_audit(again, shards=2)
    assert len(uris) == 4  # the canary, two shards of the window, the stays that are predicted alone
    assert ShardSpec.from_dict(json.loads(Path(uris[0]).read_text())) == read_spec(uris[0])
    for uri in uris:
        json.dumps(fit_shard(uri).to_dict(), allow_nan=False)
    json.dumps(report_audit(again, uris).to_dict(), allow_nan=False)


def test_exit_codes_of_the_commands(place):
    runner = CliRunner()

    def code(*arguments: str) -> tuple[int, str]:
        result = runner.invoke(main, place.command(*arguments))
        return result.exit_code, result.output

    assert code("run", "--model", MODEL, "--window", "2026-02")[0] == 0
    status, text = code("run", "--model", MODEL, "--window", "2026-03", "--json")
    assert status == 1
    assert json.loads(text[text.index("{") :])["state"] == "drift"
    assert code("run", "--model", MODEL, "--window", "2026-05")[0] == 2
    status, text = code("run", "--model", "models:/icu@nobody", "--window", "2026-02", "--json")
    assert status == 3
    assert json.loads(text)["state"] == "error"
    status, text = code("run", "--model", MODEL, "--window", "2026-02", "--set", "alhpa=0.1")
    assert status == 3
    assert "Did you mean 'alpha'?" in text
    shown = runner.invoke(main, ["audit", "show", "--model", "icu"])
    assert shown.exit_code == 0
    assert "2026-03" in shown.output
    assert "drift" in shown.output


def test_ids_can_be_hashed(place, monkeypatch):
    monkeypatch.setenv("DYNAMASK_ID_SALT", "pepper")
    from dynamask_mlflow.audit import build_reference, load_reference

    options = place.options(hash_ids=True, anchors=5, noise_seeds=0)
    done = build_reference(MODEL, place.data, "2026-01", **options)
    stored = load_reference(done.run_id)
    assert not set(stored.measured.ids) & set(np.arange(600).astype(str))
    assert run_audit(MODEL, place.data, "2026-02", **options).state == "ok"
