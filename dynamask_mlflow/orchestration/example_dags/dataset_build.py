"""Builds the dataset from its tables by night and emits the asset `dynamask_dataset`, which starts its audit."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Metadata, Param, get_current_context, task

from dynamask_mlflow.orchestration.hook import MlflowHook

DATASET = Asset("dynamask_dataset")
DOC = """\
### The dataset of the audits

Calls `dynamask-mlflow data build` with the statistics of the model, so that later months are transformed as its
training data were, and emits `dynamask_dataset` with the month that is over: `explanation_reconcile` then starts
its audit.
"""

with DAG(
    "dataset_build",
    schedule=CronDataIntervalTimetable("@monthly", timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["dynamask", "data"],
    doc_md=DOC,
    params={
        "source": Param(
            os.environ.get("DYNAMASK_SOURCE", "synthetic"), type="string", section="What to build",
            description="mimic3, mimic4, meds, ricu, long or synthetic.",
        ),
        "path": Param(
            os.environ.get("DYNAMASK_TABLES", "/data/dynamask/tables"), type="string", section="What to build",
            description="Folder of the tables.",
        ),
        "window": Param(
            None, type=["null", "string"], section="What to build",
            description="To be audited. Empty: the month of the interval.",
        ),
    },
) as dag:  # fmt: skip

    @task(outlets=[DATASET], retries=2, retry_delay=timedelta(minutes=5))
    def build() -> Iterator[Metadata]:
        import mlflow

        context = get_current_context()
        params: dict[str, Any] = dict(context["params"])
        MlflowHook().apply()
        out = os.environ.get("DYNAMASK_DATASET", "/data/dynamask/icu")
        command = [
            str(Path(sys.executable).with_name("dynamask-mlflow")),
            "data",
            "build",
            "--source",
            params["source"],
        ]
        command += ["--path", params["path"], "--out", out, "--overwrite"]
        command += ["--preprocessing", os.environ.get("DYNAMASK_MODEL", "models:/icu-mortality@champion")]
        subprocess.run(command, check=True, env={**os.environ, "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri()})
        start = context.get("data_interval_start")
        yield Metadata(DATASET, extra={"window": params["window"] or (start.strftime("%Y-%m") if start else None)})

    build()
