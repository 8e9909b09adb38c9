"""The notifier that is always there: a tag on the model's version and a line in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from dynamask_mlflow.orchestration.hook import DEFAULT, MlflowHook

if TYPE_CHECKING:
    from airflow.sdk import Context


class MlflowTagNotifier(BaseNotifier):
    """Tags the audited version with the alert. Expects the verdict in the context as `audit`."""

    def __init__(self, mlflow_conn_id: str = DEFAULT) -> None:
        super().__init__()
        self.mlflow_conn_id = mlflow_conn_id

    def notify(self, context: Context) -> None:
        from dynamask_mlflow.audit.alerts import describe_alert, tag_version

        verdict: Any = context.get("audit")
        if verdict is None:
            raise ValueError("Expected the verdict in the context as `audit`, but there is none.")
        self.log.warning("Explanation audit: %s", describe_alert(verdict))
        MlflowHook(self.mlflow_conn_id).apply()
        tag_version(verdict)
