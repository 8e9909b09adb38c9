"""The experiments of the paper, by hand: one mapped task for each experiment, logged to MLflow, resumed on a rerun."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from dynamask_mlflow.orchestration.hook import MlflowHook
from dynamask_mlflow.orchestration.retries import retry_policy

EXPERIMENTS = ["rare-feature", "rare-time", "state", "motif"]
DOC = """\
### The paper's experiments

Each chosen experiment is one mapped task that calls `dynamask-mlflow experiment ... --log`. What is logged already,
by seed and method, is not computed again: a retry goes on where it was.
"""

with DAG(
    "paper_experiments",
    schedule=None,
    catchup=False,
    tags=["dynamask", "experiments"],
    doc_md=DOC,
    params={
        "experiments": Param(
            EXPERIMENTS, type="array", items={"type": "string", "enum": EXPERIMENTS}, examples=EXPERIMENTS,
            minItems=1, section="What to run", description="Which experiments.",
        ),
        "seeds": Param(
            None, type=["null", "string"], pattern=r"^\d+(,\d*)*$", section="What to run",
            description="How many seeds, or which: 5, or 0,3,4. Empty: as many as the paper.",
        ),
        "methods": Param(
            None, type=["null", "string"], pattern=r"^[\w,. -]+$", section="What to run",
            description="Names, separated by commas. Empty: nested.",
        ),
        "quick": Param(
            False, type="boolean", section="What to run", description="Few seeds, small models: a smoke test."
        ),
    },
) as dag:  # fmt: skip

    @task
    def choose() -> list[str]:
        return list(get_current_context()["params"]["experiments"])

    @task(
        retries=2,
        retry_delay=timedelta(minutes=1),
        retry_policy=retry_policy(),
        execution_timeout=timedelta(hours=24),
        map_index_template="{{ task.op_kwargs['name'] }}",
    )
    def run(name: str) -> None:
        import mlflow

        MlflowHook().apply()
        params: dict[str, Any] = dict(get_current_context()["params"])
        command = [str(Path(sys.executable).with_name("dynamask-mlflow")), "experiment", name, "--log"]
        for option in ("seeds", "methods"):
            if params[option]:
                command += [f"--{option}", params[option]]
        command += ["--quick"] if params["quick"] else []
        subprocess.run(command, check=True, env={**os.environ, "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri()})

    run.expand(name=choose())
