"""Gives each version that the alias comes to point at its reference. See docs/airflow.md."""

import os

from airflow.sdk import Asset

from dynamask_mlflow.orchestration import build_reference_dag

dag = build_reference_dag(
    model=os.environ.get("DYNAMASK_MODEL", "models:/icu-mortality@champion"),
    data=os.environ.get("DYNAMASK_DATASET", "/data/dynamask/icu"),
    assets=[Asset("dynamask_model_version")],
)
