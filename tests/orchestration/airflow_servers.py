"""The Airflow of the tests: that of the demo, with the ward's DAGs and the shipped ones."""

from __future__ import annotations

import json
from pathlib import Path

from ward_settings import SETTINGS

from dynamask_mlflow.cli.airflow_local import Deployment, free_port, local_airflow

HERE = Path(__file__).parent
BUNDLES = {"dags-folder": HERE / "ward_dags", "shipped": HERE.parents[1] / "dags"}

__all__ = ["deployment", "free_port"]


def deployment(folder: Path, ward: Path, mlflow_uri: str, **settings: str) -> Deployment:
    """An Airflow that reads `ward_dags` and `dags`. Settings are `SECTION__NAME=value`."""
    bundles = [
        {
            "name": name,
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(path)},
        }
        for name, path in BUNDLES.items()
    ]
    chosen = {
        "DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        **settings,
    }
    made = local_airflow(folder, HERE / "ward_dags", **chosen)
    extra = {"tracking_uri": mlflow_uri, "ui_url": "http://mlflow.example"}
    made.env.update(
        {
            "AIRFLOW_CONN_MLFLOW_DEFAULT": json.dumps({"conn_type": "mlflow", "extra": json.dumps(extra)}),
            "WARD": str(ward),
            "DYNAMASK_MODEL": "models:/ward-risk@champion",
            "DYNAMASK_DATASET": str(ward / "data"),
            "DYNAMASK_STORE": str(ward / "store"),
            "DYNAMASK_REFERENCE_WINDOW": "2025",
            "DYNAMASK_SETTINGS": json.dumps(SETTINGS),
        }
    )
    return made
