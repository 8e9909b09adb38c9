"""The connection type `mlflow`: where the tracking server is and how to log in."""

from __future__ import annotations

import logging
import os
from typing import Any

from airflow.sdk import BaseHook, Connection

from dynamask_mlflow._secrets import without_secrets

DEFAULT = "mlflow_default"
log = logging.getLogger(__name__)


class MlflowHook(BaseHook):
    """Points this process at the MLflow of a connection.

    The host is the tracking URI, with its scheme, or else http is assumed; login and password, or the extra `token`,
    log in. Other extras: `tracking_uri` (in place of the host, for instance a database), `registry_uri`, `ui_url`
    (where browsers find MLflow, if that is elsewhere), `insecure_tls`.

    Without a connection of the default name, MLflow's own settings (MLFLOW_TRACKING_URI, ...) hold.
    """

    conn_name_attr = "mlflow_conn_id"
    default_conn_name = DEFAULT
    conn_type = "mlflow"
    hook_name = "MLflow"

    def __init__(self, mlflow_conn_id: str = DEFAULT) -> None:
        super().__init__()
        self.mlflow_conn_id = mlflow_conn_id

    def get_conn(self) -> Any:
        """A client of that MLflow."""
        from mlflow import MlflowClient

        self.apply()
        return MlflowClient()

    def apply(self) -> str | None:
        """Set MLflow up in this process. Returns the address for browsers, if there is one."""
        import mlflow

        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # bars fill a task's log
        connection = self._find()
        if connection is None:
            return _browsable(mlflow.get_tracking_uri())
        extra = connection.extra_dejson
        uri = extra.get("tracking_uri") or address(connection)
        secrets = {
            "MLFLOW_TRACKING_USERNAME": connection.login,
            "MLFLOW_TRACKING_PASSWORD": connection.password,
            "MLFLOW_TRACKING_TOKEN": extra.get("token"),
            "MLFLOW_TRACKING_INSECURE_TLS": "true" if extra.get("insecure_tls") else None,
        }
        os.environ.update({name: str(value) for name, value in secrets.items() if value})
        if uri:
            mlflow.set_tracking_uri(uri)
            mlflow.set_registry_uri(extra.get("registry_uri") or uri)
        return extra.get("ui_url") or _browsable(mlflow.get_tracking_uri())

    def test_connection(self) -> tuple[bool, str]:
        """For the button in the UI."""
        try:
            found = self.get_conn().search_experiments(max_results=1)
        except Exception as error:
            return False, without_secrets(error)
        return True, f"MLflow answers; it has {'experiments' if found else 'no experiment yet'}."

    def _find(self) -> Connection | None:
        from airflow.sdk.exceptions import AirflowNotFoundException

        try:
            return self.get_connection(self.mlflow_conn_id)
        except AirflowNotFoundException:
            if self.mlflow_conn_id != DEFAULT:
                raise
            log.info("There is no connection %s: MLflow's own settings hold.", DEFAULT)
            return None


def address(connection: Connection) -> str | None:
    """The tracking URI in a connection's fields."""
    if not connection.host:
        return None
    host = connection.host if "://" in connection.host else f"{connection.schema or 'http'}://{connection.host}"
    return f"{host}:{connection.port}" if connection.port else host


def _browsable(uri: str) -> str | None:
    return without_secrets(uri) if uri.startswith(("http://", "https://")) else None
