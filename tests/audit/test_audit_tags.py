"""Tags of audits: anybody who may edit a run may write them, and their length is limited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from stores import new_store

from dynamask_mlflow._states import State
from dynamask_mlflow.audit import AuditSource, audit_history
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.alerts import Notice, mark_alerted, note_notified, notified
from dynamask_mlflow.audit.errors import NoDataError
from dynamask_mlflow.audit.history import AuditEntry
from dynamask_mlflow.audit.run import tell_failure
from dynamask_mlflow.audit.runs import _as_tag as finding_as_tag
from dynamask_mlflow.audit.version_state import _as_tag as failures_as_tag
from dynamask_mlflow.audit.version_state import described, state_of_version, stored_failures

FOREIGN = ["[" * 4000, "{", "5", '"x"', "null", '{"notices": 5, "by": 5, "channels": 5, "kinds": [5]}']


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    uri, before = new_store(tmp_path), mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    yield uri
    mlflow.set_tracking_uri(before)


def test_foreign_tags_on_one_run_hide_no_audit(store: str) -> None:
    client = mlflow.MlflowClient(store)
    home = client.create_experiment("dynamask-audits")
    about = {t.KIND: "audit", t.MODEL: "icu", t.VERSION: "1", t.WINDOW: "2026-01"}
    for text in FOREIGN:
        client.create_run(home, tags={**about, t.VERDICT: "drift", t.FINDING: text, t.ALERTED: text, t.NOTIFIED: text})
    client.create_run(home, tags={**about, t.VERDICT: "fine, says somebody"})
    found = audit_history("dynamask-audits", "icu")
    assert len(found) == len(FOREIGN)
    assert {entry.channels for entry in found} == {()}
    notice = Notice("opened", "default 2026-01", "drift")
    for entry in found:
        assert notified(entry.run_id, notice) == frozenset()
        note_notified(entry.run_id, notice, ["mail"])
        assert notified(entry.run_id, notice) == {"mail"}
        mark_alerted(entry.run_id, notice)
    assert {entry.alerted for entry in audit_history("dynamask-audits", "icu")} == {(notice.key,)}


def test_a_long_finding_is_cut_and_still_read() -> None:
    names = [f"Creatinine [Mass/volume] in Serum or Plasma by another laboratory, number {i}" for i in range(60)]
    text = finding_as_tag({"kinds": ["attention"], "channels": names, "inputs": names, "reason": "x" * 400})
    assert len(text) <= t.LONGEST
    kept = json.loads(text)
    assert kept["kinds"] == ["attention"]
    assert 10 < len(kept["channels"]) < 60
    assert kept["channels"] == names[: len(kept["channels"])]


@pytest.mark.parametrize("sites", [2, 12, 40, 300])
def test_failures_of_many_sites_are_all_said_or_the_oldest_left_out(sites: int) -> None:
    failures = {
        f"site {i}": {"window": "2026-01", "start": "2026-01-01", "error": "e" * 300, "at": f"2026-02-01T{i:06d}"}
        for i in range(sites)
    }
    text = failures_as_tag(failures)
    assert len(text) <= t.LONGEST
    kept = stored_failures({t.FAILED: text})
    assert len(kept) == sites or len(kept) > 30
    assert set(kept) == set(list(failures)[-len(kept) :])


@pytest.mark.parametrize("text", [*FOREIGN, '{"a": 5}', '{"a": {"window": 5}}'])
def test_foreign_failures_of_a_version_are_none(text: str) -> None:
    assert stored_failures({t.FAILED: text}) == {}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("bad lactate 8888.25 of MRN-7001"), "RuntimeError in the model or the data"),
        (NoDataError("Expected stays in 2026-01, but there are none."), "Expected stays in 2026-01"),
        (FileNotFoundError(2, "No such file or directory", "/mnt/icu"), "/mnt/icu"),
    ],
)
def test_what_a_version_says_of_a_failure_holds_no_value(store: str, error: Exception, said: str) -> None:
    client = mlflow.MlflowClient(store)
    client.create_registered_model("icu")
    version = client.create_model_version("icu", "file:///nowhere").version
    tell_failure(AuditSource(model=f"models:/icu/{version}", data="icu", window="2026-01"), error)
    told = client.get_model_version("icu", version).tags[t.FAILED]
    assert said in told
    assert "8888.25" not in told
    assert "MRN-7001" not in told


@pytest.mark.parametrize("sites", [1, 5, 12, 60, 500])
@pytest.mark.parametrize("own", ["", "By Ada.", "By Ada. " * 600])
def test_the_description_of_a_version_fits_into_every_registry(sites: int, own: str) -> None:
    """PostgreSQL holds 5,000 letters of it, and refuses more: the audit would fail for good."""
    entries = [
        AuditEntry(
            run_id=f"{site}-{month}",
            window=f"2026-{month:02d}",
            start=f"2026-{month:02d}-01",
            version="1",
            verdict=State.DRIFT if site % 7 == 0 else State.OK,
            reference_run_id="r",
            metrics={"moved_channels": 0.01, "moved_hours": 0.01, "predicted": 0.2},
            site=f"ward-{site}",
            series=f"s{site}",
            slot=f"{site}-{month}",
            channels=("Lactate",),
            reason="A sentence of some length. " * 14,
        )
        for site in range(sites)
        for month in range(1, 9)
    ]
    failures = {"ward-2": {"window": "2026-09", "start": "2026-09-01", "error": "e" * 300, "at": "2026-10-01"}}
    state = state_of_version(entries, failures)
    assert state is not None
    found = described(own, state)
    assert len(found) <= 5000
    assert found.startswith(own.strip())
    assert "Explanation audit: drift" in found
    assert described(found, state) == found
    if sites == 5 and len(own) < 100:
        assert all(f"**ward-{site}**" in found for site in range(5))
    if sites == 500 and not own:
        assert "**ward-0**: drift" in found
        assert "480 more sites" in found
    full = "x" * 5000
    assert described(full, state) == full
