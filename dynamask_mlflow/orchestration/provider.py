"""What Airflow is told about this package: a connection type, a link, a notifier."""

from __future__ import annotations

from typing import Any

_HERE = "dynamask_mlflow.orchestration"


def get_provider_info() -> dict[str, Any]:
    """Read by Airflow through the entry point `apache_airflow_provider`; imports nothing."""
    return {
        "package-name": "dynamask-mlflow",
        "name": "Dynamask for MLflow",
        "description": "Explanation audits of registered sequence models.",
        "connection-types": [
            {
                "connection-type": "mlflow",
                "hook-class-name": f"{_HERE}.hook.MlflowHook",
                "hook-name": "MLflow",
                "conn-fields": {
                    "tracking_uri": _text("Tracking URI, if it is not the host"),
                    "registry_uri": _text("Registry URI, if it is another"),
                    "ui_url": _text("Address for browsers, if it is another"),
                    "token": {"label": "Token", "schema": {"type": ["string", "null"], "format": "password"}},
                    "insecure_tls": {
                        "label": "Accept any certificate",
                        "schema": {"type": ["boolean", "null"], "default": False},
                    },
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["schema"],
                    "relabeling": {"host": "Tracking server"},
                    "placeholders": {"host": "https://mlflow.example.org"},
                },
            }
        ],
        "extra-links": [f"{_HERE}.link.MlflowRunLink"],
        "notifications": [f"{_HERE}.notifier.MlflowTagNotifier"],
    }


def _text(label: str) -> dict[str, Any]:
    return {"label": label, "schema": {"type": ["string", "null"]}}
