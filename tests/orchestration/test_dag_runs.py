"""Whole DAG runs by `dag.test()`: ok, drift, inconclusive, no data, retry, rerun, no logical date, months in a row."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow.sdk")
pytestmark = pytest.mark.slow


def month(number: int) -> datetime:
    """When the audit of a month is due: a run at that moment has the month as its data interval."""
    return datetime(2026, number + 1, 1, tzinfo=UTC)


def states(run: Any) -> dict[str, str]:
    """Task -> state, shards as `fit_shard[0]`."""
    return {
        f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else ti.task_id: str(ti.state)
        for ti in run.get_task_instances()
    }


def audits(ward: SimpleNamespace, experiment: str = "dynamask-audits") -> list[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(ward.uri)
    home = client.get_experiment_by_name(experiment)
    if home is None:
        return []
    return list(client.search_runs([home.experiment_id], "tags.`dynamask.kind` = 'audit'"))


def of_window(ward: SimpleNamespace, window: str, experiment: str = "dynamask-audits") -> list[Any]:
    return [run for run in audits(ward, experiment) if run.data.tags["dynamask.window"] == window]


@pytest.fixture(autouse=True)
def ward_mlflow(ward: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", ward.uri)
    import mlflow

    mlflow.set_tracking_uri(ward.uri)
    mlflow.set_registry_uri(ward.uri)


def test_a_quiet_month_is_ok_and_nobody_is_told(dags, ward) -> None:
    run = dags["ward_audit"].test(logical_date=month(2))
    found = states(run)
    assert str(run.state) == "success"
    assert found["report"] == "success"
    assert found["alert"] == "skipped"
    assert {found[f"fit_shard[{i}]"] for i in range(3)} == {"success"}  # two of the window and the canary
    (audit,) = of_window(ward, "2026-02")
    assert audit.info.status == "FINISHED"
    assert audit.data.tags["dynamask.verdict"] == "ok"


def test_shards_have_labels_that_people_can_read(dags, ward) -> None:
    run = dags["ward_audit"].test(logical_date=month(1))
    labels = [ti.rendered_map_index for ti in run.get_task_instances() if ti.task_id == "fit_shard"]
    assert sorted(labels)[0].startswith("canary: 5 stays")
    assert sum(label.startswith("window ") for label in labels) == 2


def test_drift_is_told_and_a_rerun_changes_nothing(dags, ward) -> None:
    from mlflow import MlflowClient

    dag, client = dags["ward_audit"], MlflowClient(ward.uri)
    run = dag.test(logical_date=month(4))
    assert str(run.state) == "success"
    assert states(run)["alert"] == "success"
    (audit,) = of_window(ward, "2026-04")
    assert audit.data.tags["dynamask.verdict"] == "drift"
    version = client.get_model_version("ward-risk", "1")
    assert version.tags["dynamask.verdict"] == "drift"
    assert "Lactate -" in version.tags["dynamask.alert"]
    assert "SpO2 +" in version.tags["dynamask.alert"]

    results = sorted((ward.root / "store" / "shards").rglob("*.npz"))
    before = {path: path.stat().st_mtime_ns for path in results}
    again = dag.test(logical_date=month(4))
    assert states(again)["alert"] == "skipped"
    (same,) = of_window(ward, "2026-04")
    assert same.info.run_id == audit.info.run_id
    assert same.data.metrics == audit.data.metrics
    for name in audit.data.metrics:
        assert len(client.get_metric_history(audit.info.run_id, name)) == 1, name
    assert {path: path.stat().st_mtime_ns for path in results} == before


def test_too_few_stays_are_inconclusive_never_ok(dags, ward) -> None:
    run = dags["ward_audit"].test(logical_date=month(3), run_conf={"minimum": 50, "window": "2026-03-01..2026-03-10"})
    assert str(run.state) == "success"
    assert states(run)["alert"] == "success"
    (audit,) = of_window(ward, "2026-03-01..2026-03-10")
    assert audit.data.tags["dynamask.verdict"] == "inconclusive"


def test_other_settings_than_the_reference_s_fit_nothing_and_say_why(dags, ward) -> None:
    run = dags["ward_audit"].test(logical_date=month(1), run_conf={"settings": {"steps": 20}})
    found = states(run)
    assert found["fit_shard"] == "skipped"
    assert found["report"] == "success"
    reports = [run for run in of_window(ward, "2026-01") if run.data.tags["dynamask.verdict"] == "inconclusive"]
    assert len(reports) == 1


def test_an_empty_window_is_never_green_unless_asked_for(dags, ward) -> None:
    failed = dags["ward_audit"].test(logical_date=month(9))
    assert str(failed.state) == "failed"
    assert states(failed)["prepare"] == "failed"
    assert of_window(ward, "2026-09") == []
    skipped = states(dags["ward_lenient"].test(logical_date=month(9)))
    assert set(skipped.values()) == {"skipped"}


def test_an_alias_that_does_not_exist_fails_at_the_first_try(dags, ward) -> None:
    run = dags["ward_audit"].test(logical_date=month(2), run_conf={"model": "models:/ward-risk@nobody"})
    (prepare,) = [ti for ti in run.get_task_instances() if ti.task_id == "prepare"]
    assert str(run.state) == "failed"
    assert prepare.try_number == 1


def test_what_mlflow_refuses_for_good_fails_at_the_first_try(dags, ward) -> None:
    run = dags["ward_audit"].test(logical_date=month(2), run_conf={"reference_run_id": "0" * 32})
    (prepare,) = [ti for ti in run.get_task_instances() if ti.task_id == "prepare"]
    assert str(run.state) == "failed"
    assert prepare.try_number == 1


def test_a_lost_connection_is_tried_again(dags, ward) -> None:
    run = dags["ward_fragile"].test(logical_date=month(2))
    tries = {ti.map_index: ti.try_number for ti in run.get_task_instances() if ti.task_id == "fit_shard"}
    assert str(run.state) == "success"
    assert tries[0] == 2
    assert set(tries.values()) == {1, 2}


def test_a_run_without_logical_date_audits_the_last_full_period(dags, ward) -> None:
    run = dags["ward_audit"].test(logical_date=None, run_after=datetime(2026, 4, 17, 9, tzinfo=UTC))
    assert str(run.state) == "success"
    (audit,) = of_window(ward, "2026-03")
    assert audit.data.tags["dynamask.verdict"] == "ok"


def test_months_in_a_row_tell_one_finding_once_to_everybody(dags, ward) -> None:
    outcomes = [states(dags["ward_told"].test(logical_date=month(number)))["alert"] for number in (3, 4, 5)]
    assert outcomes == ["skipped", "success", "skipped"]
    # The second notifier failed at first; the retry told it, and not the first one again.
    assert (ward.root / "told.txt").read_text().splitlines() == ["first: drift 2026-04", "second: 2026-04"]
    verdicts = {run.data.tags["dynamask.window"]: run.data.tags["dynamask.verdict"] for run in audits(ward, "told")}
    assert verdicts == {"2026-03": "ok", "2026-04": "drift", "2026-05": "drift"}


def test_an_audit_that_could_not_run_is_told_with_the_reason(dags, ward) -> None:
    from mlflow import MlflowClient

    (ward.root / "told.txt").unlink(missing_ok=True)
    run = dags["ward_told"].test(logical_date=month(9))
    assert str(run.state) == "failed"
    assert states(run)["tell_failure"] == "success"
    assert "first: error 2026-09" in (ward.root / "told.txt").read_text().splitlines()
    tags = MlflowClient(ward.uri).get_model_version("ward-risk", "1").tags
    assert "2026-09" in tags["dynamask.audit_failed"]
    assert "there are none" in tags["dynamask.alert"]


def test_drift_fails_the_run_when_asked_to_and_its_audit_is_complete(dags, ward) -> None:
    run = dags["ward_strict"].test(logical_date=month(4))
    found = states(run)
    assert str(run.state) == "failed"
    assert (found["report"], found["alert"], found["close_run"]) == ("success", "failed", "success")
    (audit,) = of_window(ward, "2026-04", "strict")
    assert audit.info.status == "FINISHED"


def test_a_run_that_broke_off_is_closed_as_failed(dags, ward) -> None:
    run = dags["ward_broken"].test(logical_date=month(5))
    assert str(run.state) == "failed"
    assert states(run)["close_run"] == "success"
    (audit,) = of_window(ward, "2026-05", "broken")
    assert audit.info.status == "FAILED"


def test_a_store_that_cannot_be_written_is_refused_before_a_run_is_opened(dags, ward) -> None:
    run = dags["ward_strict"].test(logical_date=month(5), run_conf={"store": "/proc/nowhere"})
    assert str(run.state) == "failed"
    assert states(run)["prepare"] == "failed"
    assert of_window(ward, "2026-05", "strict") == []


def test_the_group_works_in_somebody_else_s_dag(dags, ward) -> None:
    run = dags["ward_group"].test(logical_date=month(5))
    assert states(run)["explanation_audit.report"] == "success"
    assert [entry.data.tags["dynamask.window"] for entry in audits(ward, "grouped")] == ["2026-02"]


def test_a_version_gets_its_reference_once(dags, ward) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(ward.uri)
    settled = states(dags["ward_reference"].test(logical_date=month(1)))
    assert set(settled.values()) == {"skipped"}
    source = client.get_model_version("ward-risk", "1").source
    client.create_model_version("ward-risk", source)
    run = dags["ward_reference"].test(logical_date=month(2), run_conf={"model": "models:/ward-risk/2"})
    assert str(run.state) == "success"
    assert "dynamask.reference_run_id" in client.get_model_version("ward-risk", "2").tags


def test_months_without_an_audit_get_one_each(dags, ward, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models import DagRun
    from airflow.utils.session import create_session

    from dynamask_mlflow import audit

    later = datetime(2027, 1, 1)  # whatever the day of the test, the ward's months are over
    monkeypatch.setattr(audit, "pending_windows", partial(audit.pending_windows, now=later), raising=False)

    def started() -> dict[str, str]:
        with create_session() as session:
            found = session.query(DagRun).filter(DagRun.dag_id == "ward_lenient", DagRun.run_id.like("reconcile__%"))
            return {each.run_id: each.conf["window"] for each in found}

    before = started()
    run = dags["ward_reconcile"].test(logical_date=month(7))
    assert {name: state for name, state in states(run).items() if name != "pending"} == {
        "audit[0]": "success",
        "audit[1]": "success",
    }
    windows = sorted(window for run_id, window in started().items() if run_id not in before)
    assert windows == ["2025-06", "2026-01"]  # the reference is of "all", so that no month is its own


def test_a_gate_lets_a_copy_of_the_champion_pass_and_fails_where_it_cannot_tell(dags, ward) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(ward.uri)
    champion = client.get_model_version_by_alias("ward-risk", "champion")
    copy = client.create_model_version("ward-risk", champion.source, champion.run_id)
    client.set_registered_model_alias("ward-risk", "candidate", copy.version)
    assert states(dags["ward_gate"].test()) == {"gate": "success"}
    tags = client.get_model_version("ward-risk", copy.version).tags
    assert tags["dynamask.gate"].startswith(f"passed against version {champion.version}")
    assert states(dags["ward_strict_gate"].test()) == {"gate": "failed"}
    client.set_registered_model_alias("ward-risk", "candidate", champion.version)
    assert states(dags["ward_gate"].test()) == {"gate": "failed"}, "a version is not compared with itself"
