"""What is tried again, and who is told how often, without a scheduler."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow.sdk")


def action_of(error: BaseException) -> str:
    from airflow.sdk import RetryAction

    from dynamask_mlflow.orchestration.retries import retry_policy

    decision = retry_policy().evaluate(error, 1, 3, None)
    return "fail" if decision is not None and decision.action is RetryAction.FAIL else "retry"


def test_a_dataset_that_is_gone_is_tried_again_and_one_of_another_schema_is_not(tmp_path, monkeypatch) -> None:
    from small_ward import build_ward

    from dynamask_mlflow.audit.errors import AuditError, DataLostError
    from dynamask_mlflow.audit.windows import find_rows, load_stays, parse_window
    from dynamask_mlflow.data.errors import DataError

    folder = build_ward(tmp_path / "data", later=("2026-01",))
    rows = find_rows(str(folder), parse_window("2026-01"))
    shutil.move(folder, tmp_path / "elsewhere")
    for read in (lambda: find_rows(str(folder), parse_window("2026-01")), lambda: load_stays(str(folder), rows)):
        with pytest.raises(DataLostError, match="Expected a built dataset") as gone:
            read()
        assert action_of(gone.value) == "retry"
    shutil.move(tmp_path / "elsewhere", folder)
    (folder / "x.npy").rename(tmp_path / "x.npy")  # the mount goes while it is read
    with pytest.raises(DataError, match="cannot be read") as half:
        load_stays(str(folder), rows)
    assert action_of(half.value) == "retry"
    (folder / "dataset.json").write_text("{}")
    with pytest.raises(AuditError, match="schema version") as other:
        find_rows(str(folder), parse_window("2026-01"))
    assert action_of(other.value) == "fail"


def test_shards_that_are_gone_are_tried_again(tmp_path) -> None:
    from dynamask_mlflow.audit.errors import DataLostError
    from dynamask_mlflow.audit.shards import read_spec

    with pytest.raises(DataLostError) as gone:
        read_spec(str(tmp_path / "plans" / "shard.json"))
    assert action_of(gone.value) == "retry"


class Teller:
    def __init__(self, name: str, told: list[str], failures: int = 0) -> None:
        self.name, self.told, self.failures = name, told, failures

    def __call__(self, context: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("The pager does not answer.")
        self.told.append(f"{self.name}: {context['audit']['notice']}")


def test_a_failure_is_told_once_though_another_notifier_fails_at_first(monkeypatch) -> None:
    from datetime import UTC, datetime

    from dynamask_mlflow.orchestration import steps, tasks

    context = {"params": {}, "dag_run": SimpleNamespace(run_after=datetime(2026, 4, 1, tzinfo=UTC))}
    monkeypatch.setattr(tasks, "get_current_context", lambda: context)
    monkeypatch.setattr(tasks, "MlflowHook", lambda conn_id: SimpleNamespace(apply=lambda: None))
    monkeypatch.setattr(steps, "noted_failure", lambda source: ("1", "no stays"))
    told: list[str] = []
    notifiers: Any = (Teller("mail", told), Teller("pager", told, failures=2))
    where: Any = {"conn_id": "mlflow_default", "use_params": False, "period": "month", "timezone": UTC}
    source = {"model": "models:/icu@champion", "window": None, "site": "default", "experiment": "audits"}
    tasks.tell_failure(source, notifiers=notifiers, waits=(0.0, 0.0), **where)
    line = "not audited: models:/icu@champion, 2026-03. no stays"
    assert told == [f"mail: {line}", f"pager: {line}"]
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="pager does not answer"):
        tasks.tell_failure(source, notifiers=(Teller("pager", told, failures=9),), waits=(0.0,), **where)
