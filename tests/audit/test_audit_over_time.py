"""What a version is found to be over time: newest windows, episodes, alerts, backfills in any order, failures."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import mlflow
import pytest
from audit_hospital import hospital

from dynamask_mlflow.audit import AuditConfig, NoDataError, State, audit_history, run_audit, state_of_version
from dynamask_mlflow.audit.alerts import Notice, due_notices, mark_alerted, notices_of
from dynamask_mlflow.audit.compare_shards import trend_entries
from dynamask_mlflow.audit.history import AuditEntry, episodes, jaccard, settings_labels
from dynamask_mlflow.audit.version_state import section

MODEL = "models:/icu@champion"
ALERT_ON = ("drift", "warning", "inconclusive")
BROAD = tuple(f"channel {i}" for i in range(13))


def entry(window: str, state: str, channels: tuple[str, ...] = (), **more) -> AuditEntry:
    return AuditEntry(
        run_id=more.pop("run_id", f"{more.get('site', '')}{window}"),
        window=window,
        start=f"{window}-01T00:00:00",
        version="1",
        verdict=State(state),
        reference_run_id="r",
        metrics={},
        channels=channels,
        kinds=("attention",) if channels else ("power",) if state == "inconclusive" else (),
        reason=f"reason of {window}",
        **more,
    )


def told_over(months: list[AuditEntry], days: int = 90) -> list[list[str]]:
    """What is told month by month, when everything due is told at once."""
    history: list[AuditEntry] = []
    told = []
    for month in months:
        history.append(month)
        found = notices_of(history, month.run_id, "line", ALERT_ON, days)
        told.append([notice.kind for notice in found])
        marked = AuditEntry(**{**vars(month), "alerted": tuple(notice.key for notice in found)})
        history[-1] = marked
    return told


def test_a_lasting_broad_fault_is_told_once_reminded_and_told_when_it_ends():
    months = [entry("2026-01", "ok")]
    months += [entry(f"2026-{m:02d}", "drift", BROAD[m % 2 : 12 + m % 2]) for m in range(2, 8)]
    months.append(entry("2026-08", "ok"))
    assert told_over(months) == [[], ["opened"], [], [], [], ["reminder"], [], ["ended"]]


def test_another_fault_is_another_episode():
    months = [entry("2026-01", "drift", ("Temp",)), entry("2026-02", "drift", ("Lactate", "SpO2"))]
    assert told_over(months) == [["opened"], ["ended", "opened"]]
    assert jaccard(("a", "b"), ("b", "c")) == pytest.approx(1 / 3)


def test_attention_that_spread_to_a_channel_does_not_make_its_own_fault_the_same():
    first = entry("2026-01", "drift", ("HeartRate", "Lactate"), inputs=("Lactate",))
    assert told_over([first, entry("2026-02", "drift", ("HeartRate",), inputs=("HeartRate",))])[1] == [
        "ended",
        "opened",
    ]
    assert told_over([first, entry("2026-02", "drift", ("Lactate",), inputs=("Lactate",))])[1] == []


def test_a_warning_that_becomes_drift_is_told_as_worse():
    months = [entry("2026-01", "warning", ("Temp",)), entry("2026-02", "drift", ("Temp",))]
    assert told_over(months) == [["opened"], ["worse"]]


def test_an_inconclusive_month_does_not_end_an_episode():
    months = [
        entry("2026-01", "drift", ("Temp",)),
        entry("2026-02", "inconclusive"),
        entry("2026-03", "drift", ("Temp",)),
    ]
    assert told_over(months) == [["opened"], ["inconclusive"], []]
    assert [episode.open for episode in episodes(months)] == [True]
    assert state_of_version(months[:2]).state == State.DRIFT


def test_the_state_is_that_of_the_newest_window_of_each_site_in_any_order():
    audits = [
        entry("2026-03", "drift", ("Temp",)),
        entry("2026-04", "ok"),
        entry("2026-02", "warning", ("Lactate",), site="b"),
        entry("2026-01", "ok", site="b"),
    ]
    states = {state_of_version(list(order)).state for order in itertools.permutations(audits)}
    assert states == {State.WARNING}
    assert state_of_version(audits[:2]).state == State.OK
    assert state_of_version(audits[:2]).alert == ""
    assert "b 2026-02: reason of 2026-02" in state_of_version(audits).alert
    assert state_of_version([]) is None


def test_the_description_says_which_window_the_state_is_of():
    """A state of an open episode is not that of the newest window."""
    state = state_of_version([entry("2026-03", "drift", ("Temp",)), entry("2026-04", "inconclusive")])
    told = section(state)
    assert "drift; the newest window, 2026-04, is inconclusive. reason of 2026-04" in told
    assert "- Open drift, 2026-03: reason of 2026-03" in told
    assert "ok, window 2026-04. reason of 2026-04" in section(state_of_version([entry("2026-04", "ok")]))


def test_two_audits_of_a_window_with_other_settings_are_told_apart():
    audits = [
        entry("2026-03", "ok", series="plain", slot="1"),
        entry("2026-04", "warning", ("Temp",), series="by sex", slot="2", run_id="other"),
        entry("2026-04", "ok", series="plain", slot="3"),
    ]
    assert list(settings_labels(audits).values()) == ["settings 1", "settings 2", "settings 1"]
    told = section(state_of_version(audits))
    assert "| 2026-04 (settings 2) | warning |" in told
    assert "| 2026-04 (settings 1) | ok |" in told
    assert set(settings_labels(audits[::2]).values()) == {""}


def version():
    return mlflow.MlflowClient().get_model_version("icu", "1")


def test_auditing_an_old_window_later_changes_no_headline_and_alerts_are_cleared(place):
    run_audit(MODEL, place.data, "2026-03", **place.options())
    assert version().tags["dynamask.verdict"] == "drift"
    assert "Lactate" in version().tags["dynamask.alert"]
    assert "| 2026-03 | drift |" in version().description
    run_audit(MODEL, place.data, "2026-06", **place.options())
    run_audit(MODEL, place.data, "2026-02", **place.options())
    tags = version().tags
    assert (tags["dynamask.verdict"], tags["dynamask.audited_window"]) == ("ok", "2026-06")
    assert "dynamask.alert" not in tags
    text = version().description
    assert text.index("| 2026-02 | ok |") < text.index("| 2026-03 | drift |") < text.index("| 2026-06 | ok |")
    assert "### Explanation audit: ok" in text


def test_a_window_whose_outcomes_warned_on_their_own_is_in_no_later_trend():
    def month(number: int, p: float) -> AuditEntry:
        return replace(entry(f"2026-0{number}", "ok"), metrics={"invalidated": 0.0, "calibration_p_value": p})

    months = [month(number, 1e-5 if number == 3 else 0.2) for number in range(1, 6)]
    chosen = trend_entries("2026-06", "r", AuditConfig(trend_window=4), months)
    assert [each.window for each in chosen] == ["2026-05", "2026-04", "2026-02"]


def test_due_notices_come_from_the_runs_and_are_told_once(place):
    def audit(window: str) -> list[Notice]:
        verdict = run_audit(MODEL, place.data, window, **place.options())
        (run_id,) = [e.run_id for e in audit_history("dynamask-audits", "icu") if e.window == window]
        record = {**verdict.to_dict(), "run_id": run_id}
        found = due_notices(record, "dynamask-audits", ALERT_ON)
        for notice in found:
            mark_alerted(run_id, notice)
        return found

    assert audit("2026-02") == []
    assert [notice.kind for notice in audit("2026-03")] == ["opened"]
    assert audit("2026-03") == []
    (ended,) = audit("2026-06")
    assert ended.kind == "ended"
    assert "drift since 2026-03" in ended.text


def test_an_audit_that_could_not_run_is_said_on_the_version_until_one_did(place):
    run_audit(MODEL, place.data, "2026-02", **place.options())
    with pytest.raises(NoDataError):
        run_audit(MODEL, place.data, "2026-07", **place.options())
    tags = version().tags
    assert tags["dynamask.verdict"] == "inconclusive"
    assert "not audited: 2026-07" in tags["dynamask.alert"]
    assert "Could not be audited: 2026-07" in version().description
    run_audit(MODEL, place.data, "2026-06", **place.options())  # an older window says nothing about July
    assert "dynamask.audit_failed" in version().tags


def test_windows_with_stays_and_no_finished_audit_are_pending(place, tmp_path):
    from dataclasses import replace
    from datetime import UTC, datetime

    from click.testing import CliRunner

    from dynamask_mlflow.audit import pending_windows
    from dynamask_mlflow.cli import main

    later, source = datetime(2027, 1, 1, tzinfo=UTC), place.source(place.data, "all")
    options = {"config": place.config, "now": later}
    everything = ["2026-02", "2026-03", "2026-04", "2026-05", "2026-06"]  # January is the reference's own
    assert pending_windows(source, **options) == everything
    assert pending_windows(source, **{**options, "now": datetime(2026, 4, 9, tzinfo=UTC)}) == everything[:2]
    run_audit(MODEL, place.data, "2026-03", **place.options())
    assert pending_windows(source, **options) == [w for w in everything if w != "2026-03"]
    data = hospital()
    data.x[data.windows == "2026-03"] += 0.1
    changed = str(data.save(tmp_path / "changed"))
    assert (
        pending_windows(replace(source, data=changed), **options) == everything
    )  # other data for March: to be audited again
    assert "2026-02  pending" in CliRunner().invoke(
        main, place.command("reconcile", "--model", MODEL, "--dry-run", "--period", "month")).output  # fmt: skip


MONTHS = ("2026-02", "2026-04", "2026-06")


@pytest.fixture
def backfill(place, prepared, tmp_path):
    """Audit months in a database of its own, one after the other or at the same time; returns what stands there."""
    data = hospital()
    data.x[data.windows == "2026-04", :, 3] = 0.1
    folder = str(data.save(tmp_path / "sound"))
    config = place.config.with_options(trend_window=2)

    def run(name: str, order: tuple[str, ...], at_once: bool = False) -> dict[str, dict[str, float]]:
        shutil.copy(prepared / "mlflow.db", tmp_path / f"{name}.db")
        uri = f"sqlite:///{tmp_path}/{name}.db"
        mlflow.set_tracking_uri(uri)
        if at_once:
            script = (
                "import json, sys, mlflow, torch; torch.set_num_threads(1); mlflow.set_tracking_uri(sys.argv[1])\n"
                "from dynamask_mlflow.audit import AuditConfig, run_audit\n"
                "config = AuditConfig.from_mapping(json.loads(sys.argv[2]))\n"
                f"run_audit({MODEL!r}, {folder!r}, sys.argv[3], config=config, store={place.shards!r})"
            )
            settings = json.dumps(config.to_dict())
            started = [subprocess.Popen([sys.executable, "-c", script, uri, settings, month]) for month in order]
            assert [process.wait(timeout=300) for process in started] == [0] * len(order)
        else:
            for month in order:
                run_audit(MODEL, folder, month, config=config, store=place.shards)
        client = mlflow.MlflowClient()
        for audit in audit_history("dynamask-audits", "icu"):
            for metric in audit.metrics:
                assert len(client.get_metric_history(audit.run_id, f"dynamask/audit/{metric}")) == 1, metric
        return numbers()

    return run


def numbers() -> dict[str, dict[str, float]]:
    entries = audit_history("dynamask-audits", "icu", superseded=False)
    return {e.window: {**e.metrics, "state": str(e.verdict), "trend": e.trend} for e in entries}


@pytest.mark.slow
def test_backfills_in_any_order_at_once_and_again_give_the_same_numbers(backfill):
    found = backfill("forwards", MONTHS)
    assert [entry.get("trend_windows") for entry in found.values()] == [None, 2, 2]
    assert backfill("backwards", MONTHS[::-1]) == found
    assert backfill("again", ("2026-04", "2026-06", "2026-02", "2026-06", "2026-04")) == found
    assert backfill("at once", MONTHS, at_once=True) == found
