"""A button on the task's page that leads to the run in MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

_ATTRIBUTE = "mlflow_run_url"


class MlflowRunLink(BaseOperatorLink):
    """Airflow asks for the link in the task's own process, when it is done; there the task left the address.

    Empty where MLflow has no address for browsers.
    """

    name = "MLflow run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return getattr(operator, _ATTRIBUTE, "")


def leave_link(operator: BaseOperator, url: str) -> None:
    """Say where the run is."""
    setattr(operator, _ATTRIBUTE, url)
