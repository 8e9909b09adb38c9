"""The bundle of evidence, labels that arrive later, references and stores that are pruned."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynamask_mlflow
from dynamask_mlflow.audit import (
    AuditError,
    TamperedError,
    add_labels,
    audit_history,
    build_reference,
    list_references,
    prune_references,
    prune_store,
    read_labels,
    run_audit,
    run_gate,
    verify_evidence,
    write_evidence,
)
from dynamask_mlflow.audit.artifacts import VERDICT
from dynamask_mlflow.audit.bundle import AUDITS, INDEX, MANIFEST, SEAL, Bundle, seal
from dynamask_mlflow.cli import main

MODEL = "models:/icu@champion"


def test_a_year_of_audits_in_one_file_that_computes_its_verdicts_again(place, tmp_path, monkeypatch):
    states = {
        window: str(run_audit(MODEL, place.data, window, **place.options()).state) for window in ("2026-02", "2026-03")
    }
    assert states["2026-03"] == "drift"
    with pytest.raises(AuditError, match="there are none"):
        write_evidence("icu", "2025", tmp_path / "none.zip")
    path = tmp_path / "evidence.zip"
    seal = write_evidence("icu", "2026", path)
    again = tmp_path / "again.zip"
    assert write_evidence("icu", "2026", again) == seal
    assert again.read_bytes() == path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        page = archive.read("index.html").decode()
        assert archive.testzip() is None
    assert names[:2] == ["index.html", MANIFEST]
    assert not any("anchor_inputs" in name for name in names)  # no input leaves with it
    arrays = [name for name in names if name.endswith(".npz")]
    assert {"measured.npz", "canary.npz", "anchors.npz"} <= {Path(name).name for name in arrays}
    with zipfile.ZipFile(path) as archive:
        for name in arrays:  # nor a stay's mean input, also not of the anchors that were fitted again
            stored = np.load(io.BytesIO(archive.read(name)))
            assert stored["values"].size == stored["missing"].size == 0, name
    assert "no legal advice" in page
    assert "Article 72" in page
    assert "<script" not in page
    assert "2026-03, default, version 1" in page

    monkeypatch.setattr(mlflow, "get_tracking_uri", lambda: "http://nowhere.invalid")  # verifying asks no server
    found = verify_evidence(path, seal)
    assert found.good
    assert {verdict.name.rsplit(", ")[-1]: verdict.computed for verdict in found.verdicts} == states
    with pytest.raises(TamperedError, match="with the seal 00"):
        verify_evidence(path, "00")
    rng = np.random.default_rng(0)
    whole = path.read_bytes()
    for position in [0, 10, len(whole) - 1, len(whole) - SEAL - 1, *rng.integers(0, len(whole), 40).tolist()]:
        changed = bytearray(whole)
        changed[position] ^= 1 << int(rng.integers(8))
        (tmp_path / "changed.zip").write_bytes(bytes(changed))
        with pytest.raises(TamperedError):
            verify_evidence(tmp_path / "changed.zip")


def test_a_process_with_nothing_but_the_package_gives_the_same_verdicts_and_refuses_a_changed_byte(place, tmp_path):
    run_audit(MODEL, place.data, "2026-03", **place.options())
    path, changed = tmp_path / "evidence.zip", tmp_path / "changed.zip"
    write_evidence("icu", "2026", path)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    changed.write_bytes(bytes(whole))
    package = Path(dynamask_mlflow.__file__).parent
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(package, elsewhere / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    # No environment, no working folder, no user's packages: what another machine has with the package installed.
    code = f"import sys; sys.path.insert(0, {str(elsewhere)!r}); from dynamask_mlflow.cli import main; main()"

    def verify(file: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-c", code, "audit", "verify", str(file)]
        return subprocess.run(command, env={}, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    good, bad = verify(path), verify(changed)
    assert good.returncode == 0, good.stderr
    assert "drift" in good.stdout
    assert bad.returncode == 3
    assert "seal" in bad.stderr


def test_a_forged_verdict_is_told_although_the_file_is_sealed_anew(place, tmp_path):
    from dynamask_mlflow.audit.bundle import collect

    run_audit(MODEL, place.data, "2026-03", **place.options())
    bundle = collect("icu", "2026")
    (name,) = [name for name in bundle.files if name.endswith("verdict.json")]
    forged = json.loads(bundle.files[name])
    forged["metrics"]["predicted"] += 0.1
    forged["violations"] = []
    files = {**bundle.files, name: json.dumps(forged).encode()}
    path = tmp_path / "forged.zip"
    path.write_bytes(seal(Bundle(bundle.model, bundle.year, bundle.audits, files)))
    done = CliRunner().invoke(main, ["audit", "verify", str(path)])
    assert done.exit_code == 1, done.output
    assert "predicted was" in done.output
    assert "the violations were []" in done.output


def test_outcomes_that_arrive_later_conclude_the_audit_again_and_supersede_it(place, tmp_path):
    run_audit(MODEL, place.data, "2026-02", **place.options())
    (before,) = audit_history("dynamask-audits", "icu")
    ids = np.load(Path(place.data) / "ids.npy")
    table = tmp_path / "outcomes.csv"
    table.write_text("stay,died\n" + "\n".join(f"{stay},{int(stay) % 2}" for stay in ids))
    done = CliRunner().invoke(main, ["audit", "labels", "--model", "icu", "--labels", str(table)])
    assert "outcomes; ok, now" in done.output, done.output
    entries = audit_history("dynamask-audits", "icu")
    (now,) = [entry for entry in entries if not entry.superseded]
    assert len(entries) == 2
    assert now.run_id != before.run_id
    assert now.metrics["calibration"] != before.metrics["calibration"]
    assert now.metrics["predicted"] == before.metrics["predicted"]
    page = mlflow.artifacts.load_text(f"runs:/{now.run_id}/dynamask/audit.html")
    assert "80 stays are explained, drawn from 90 of the window; predictions are those of 90" in page
    assert mlflow.get_run(before.run_id).data.tags["dynamask.superseded_by"] == now.run_id
    assert add_labels("icu", read_labels(table)) == []  # the same outcomes again change nothing
    assert verify_evidence_of(tmp_path).good


def test_outcomes_of_stays_that_were_not_explained_count_and_those_of_earlier_windows_reach_later_trends(
    place, tmp_path
):
    options = place.options(trend_window=2)
    for window in ("2026-02", "2026-06"):
        run_audit(MODEL, place.data, window, **options)
    ids, windows = (np.load(Path(place.data) / f"{name}.npy") for name in ("ids", "windows"))
    february = {str(stay): float(int(stay) % 2) for stay in ids[windows == "2026-02"]}
    found = {each.window: each for each in add_labels("icu", february)}
    assert found["2026-02"].added > 0
    assert found["2026-06"].added == 0  # none of its own outcomes is new, but those of its trend are
    assert found["2026-02"].verdict.metrics["labelled"] == 90  # 80 were explained
    current = {entry.window: entry for entry in audit_history("dynamask-audits", "icu", superseded=False)}
    made_from = json.loads(mlflow.artifacts.load_text(f"runs:/{current['2026-06'].run_id}/dynamask/made_from.json"))
    assert made_from["earlier"] == [current["2026-02"].run_id]
    assert current["2026-06"].trend == f"2026-02:{current['2026-02'].content[:12]}"
    assert verify_evidence_of(tmp_path).good


def verify_evidence_of(folder: Path):
    write_evidence("icu", "2026", folder / "evidence.zip")
    return verify_evidence(folder / "evidence.zip")


def test_references_are_replaced_and_those_that_nothing_needs_are_pruned(place):
    (first,) = list_references("icu")
    assert first.pinned_to == ("1",)
    second = build_reference(MODEL, place.data, "2026-01", **place.options(reference_instances=150)).run_id
    pinned = {reference.run_id: reference.pinned_to for reference in list_references("icu")}
    assert pinned == {first.run_id: (), second: ("1",)}
    assert [reference.run_id for reference in prune_references("icu")] == [first.run_id]
    assert [reference.run_id for reference in list_references("icu")] == [second]

    files = list(Path(place.shards, "shards").rglob("*.npz"))
    for path in files[:2]:
        os.utime(path, (0, 0))
    assert prune_store(place.shards, 30)[0] == 2
    verdict = run_audit(MODEL, place.data, "2026-02", **place.options())
    assert verdict.reference_run_id == second


def test_a_gate_by_subgroups_refuses_what_holds_only_on_average(place, tmp_path):
    from dataclasses import replace

    from audit_hospital import Lactate, hospital, register

    from dynamask_mlflow.audit import GateLimits, GateState

    whole = hospital()
    unit = np.where(np.arange(len(whole)) % 2 == 0, "MICU", "SICU")
    data = str(replace(whole, attributes={"unit": unit}).save(tmp_path / "units"))
    register(place.folder, Lactate(lactate=0.9))
    config = place.config.with_options(instances=80, by=("unit",), group_minimum=20, permutations=1499)
    limits = GateLimits(minimum=40, group_risk=0.0001, channel=0.9, hours=0.9, auroc=0.9, auprc=0.9, faithfulness=9)
    result = run_gate(
        place.source(data, "2026-02", model="models:/icu/2"), "models:/icu/1", limits=limits, config=config
    )
    assert result.state == GateState.REFUSED
    assert {check.name for check in result.checks if check.state == GateState.REFUSED} == {"unit MICU", "unit SICU"}


def test_two_hospitals_that_number_their_stays_alike_do_not_share_outcomes(place, tmp_path):
    """Outcomes of one site were written into the audits of all sites whose stays have the same names."""
    build_reference(MODEL, place.data, "2026-01", site="south", config=place.config, store=place.shards)
    for site in ("default", "south"):
        run_audit(MODEL, place.data, "2026-02", site=site, **place.options())
    ids = np.load(Path(place.data) / "ids.npy")
    labels = {str(stay): float(int(stay) % 2) for stay in ids}
    before = {entry.site: entry.run_id for entry in audit_history("dynamask-audits", "icu", superseded=False)}
    with pytest.raises(AuditError, match=r"Expected the site whose stays have these outcomes.*: one of default, south"):
        add_labels("icu", labels)
    with pytest.raises(AuditError, match="Expected audits of 'icu' at the site 'north'"):
        add_labels("icu", labels, site="north")
    with pytest.raises(AuditError, match="Expected outcomes of 0 or 1 for a predicted risk, but got 2"):
        add_labels("icu", dict.fromkeys(labels, 2.0), site="south")
    table = tmp_path / "outcomes.csv"
    table.write_text("stay,died\n" + "\n".join(f"{stay},{int(y)}" for stay, y in labels.items()))
    done = CliRunner().invoke(
        main, ["audit", "labels", "--model", "icu", "--labels", str(table), "--site", "south", "--json"]
    )
    assert [each["site"] for each in json.loads(done.output)] == ["south"]
    now = {entry.site: entry.run_id for entry in audit_history("dynamask-audits", "icu", superseded=False)}
    assert now["default"] == before["default"]
    assert now["south"] != before["south"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"stay,died\n7,1\n7,0\n", "Expected one outcome a stay"),
        (b"stay\n7\n", "Expected a column of stays and one of outcomes"),
        (b"stay,died\n7,yes\n", "Expected numbers in the last column"),
        (b"", "Expected a table of stays and outcomes at"),
        (b"\xff\xfe\x00stay", "Expected a table of stays and outcomes at"),
    ],
)
def test_a_table_of_outcomes_that_cannot_be_read_is_named(tmp_path, text, message):
    (tmp_path / "deaths.csv").write_bytes(text)
    with pytest.raises(AuditError, match=message):
        read_labels(tmp_path / "deaths.csv")


def test_names_of_stays_are_text(tmp_path):
    (tmp_path / "deaths.csv").write_text("stay,ward,died\n007,a,1\n7,b,0\n,c,1\n1e3,d,1\n")
    assert read_labels(tmp_path / "deaths.csv") == {"007": 1.0, "7": 0.0, "1e3": 1.0}
    pd.DataFrame({"stay": [7.0, np.nan, 8.0], "died": [1, 0, 0]}).to_parquet(tmp_path / "deaths.parquet")
    assert read_labels(tmp_path / "deaths.parquet") == {"7": 1.0, "8": 0.0}


@pytest.mark.parametrize(
    "files",
    [
        {AUDITS: b"5"},
        {AUDITS: b"{"},
        {AUDITS: b'[{"run_id": "r"}]'},
        {AUDITS: b'[{"run_id": "../../x", "version": "1", "site": "a", "window": "b", "recomputable": true}]'},
        {
            AUDITS: b'[{"run_id": "r", "version": "1", "site": "a", "window": "b", "recomputable": true}]',
            f"runs/r/{VERDICT}": b"[]",
        },
        {},
        {"../x": b"1"},
    ],
)
def test_whatever_is_sealed_is_a_bundle_or_refused_in_one_kind_of_error(tmp_path, files):
    """Anybody can seal a file; its content is not to be believed for that."""
    path = tmp_path / "sealed.zip"
    path.write_bytes(seal(Bundle("icu", "2026", (), {INDEX: b"x", **files})))
    with pytest.raises(AuditError, match="Expected"):
        verify_evidence(path)


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sealed_bytes_of_any_kind_are_refused(tmp_path, body):
    path = tmp_path / "sealed.zip"
    path.write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    with pytest.raises(AuditError, match="Expected a bundle of evidence"):
        verify_evidence(path)
