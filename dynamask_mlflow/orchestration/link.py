"""A button on the task's page that leads to the run in MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

URL_KEY = "mlflow_run_url"


class MlflowRunLink(BaseOperatorLink):
    """Reads the address that the task left; empty where MLflow has no address for browsers."""

    name = "MLflow run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        from airflow.sdk.execution_time.xcom import XCom

        return XCom.get_value(ti_key=ti_key, key=URL_KEY) or ""
