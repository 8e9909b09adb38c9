"""Gives each version that the alias comes to point at its reference. See docs/airflow.md."""

import json
import os

from airflow.sdk import Asset

from dynamask_mlflow.orchestration import build_reference_dag

dag = build_reference_dag(
    model=os.environ.get("DYNAMASK_MODEL", "models:/icu-mortality@champion"),
    data=os.environ.get("DYNAMASK_DATASET", "/data/dynamask/icu"),
    # A closed period: a window without an end would take in the very months that are audited.
    window=os.environ.get("DYNAMASK_REFERENCE_WINDOW", "2023"),
    assets=[Asset("dynamask_model_version")],
    config=json.loads(os.environ.get("DYNAMASK_SETTINGS", "{}")),
)
