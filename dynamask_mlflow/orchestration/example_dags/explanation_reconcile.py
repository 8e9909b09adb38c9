"""Starts the audit of each month that has stays and no audit. See docs/airflow.md."""

import json
import os

from airflow.sdk import Asset

from dynamask_mlflow.orchestration import build_reconcile_dag

dag = build_reconcile_dag(
    model=os.environ.get("DYNAMASK_MODEL", "models:/icu-mortality@champion"),
    data=os.environ.get("DYNAMASK_DATASET", "/data/dynamask/icu"),
    assets=[Asset("dynamask_dataset")],
    config=json.loads(os.environ.get("DYNAMASK_SETTINGS", "{}")),
)
