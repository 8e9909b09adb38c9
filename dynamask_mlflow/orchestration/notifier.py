"""The notifier that is always there: the version's tags brought up to date, and a line in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from dynamask_mlflow.orchestration.hook import DEFAULT, MlflowHook

if TYPE_CHECKING:
    from airflow.sdk import Context


class MlflowTagNotifier(BaseNotifier):
    """Writes what is open on the audited version (`dynamask.alert`). Expects the verdict in the context as `audit`."""

    def __init__(self, mlflow_conn_id: str = DEFAULT) -> None:
        super().__init__()
        self.mlflow_conn_id = mlflow_conn_id

    def notify(self, context: Context) -> None:
        from dynamask_mlflow.audit import publish_version_state

        verdict: Any = context.get("audit")
        if verdict is None:
            raise ValueError("Expected the verdict in the context as `audit`, but there is none.")
        self.log.warning("Explanation audit: %s", verdict["notice"])
        MlflowHook(self.mlflow_conn_id).apply()
        if verdict["version"]:
            publish_version_state(verdict["model"], verdict["version"], verdict["experiment"])
