"""Audits one registered model every month. See docs/airflow.md."""

import json
import os

from dynamask_mlflow.orchestration import build_audit_dag

dag = build_audit_dag(  # an Airflow DAG
    model=os.environ.get("DYNAMASK_MODEL", "models:/icu-mortality@champion"),
    data=os.environ.get("DYNAMASK_DATASET", "/data/dynamask/icu"),
    config=json.loads(os.environ.get("DYNAMASK_SETTINGS", "{}")),
)
