"""What one more shard costs through Airflow: a real API server, scheduler and DAG processor on sqlite.

The same stays of a toy ward, whose fits take next to no time, audited in 2 and in 8 shards, one task at a time
(LocalExecutor, parallelism 1): the difference of the whole runs' durations over six shards. A task's own time is the
median of the `fit_shard` tasks: a process, the imports of torch and MLflow, the model's loading, a short fit.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

HELPERS = Path(__file__).parents[1] / "tests" / "orchestration"
FEW, MANY = 2, 8
DAGS = """
# Airflow reads only files in which its name and the word dag stand.
import os, sys
sys.path.insert(0, {helpers!r})
from ward_settings import SETTINGS
from dynamask_mlflow.orchestration import Execution, build_audit_dag
root = os.environ["WARD"]
for count in ({few}, {many}):
    globals()[f"dag{{count}}"] = build_audit_dag(
        "models:/ward-risk@champion", root + "/data", dag_id=f"shards{{count}}", cron=None, config=SETTINGS,
        experiment=f"shards{{count}}", store=f"{{root}}/store{{count}}", execution=Execution(shards=count, retries=0),
    )
"""


def run() -> dict[str, float]:
    sys.path[:0] = [str(HELPERS), str(HELPERS.parent)]
    deployment = importlib.import_module("airflow_servers").deployment
    make_ward = importlib.import_module("small_ward").make_ward
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_ward(root / "ward")
        dags = root / "dags"
        dags.mkdir()
        (dags / "shards.py").write_text(DAGS.format(helpers=str(HELPERS), few=FEW, many=MANY))
        airflow = deployment(
            root / "airflow",
            root / "ward",
            f"sqlite:///{root}/ward/mlflow.db",
            CORE__DAGS_FOLDER=str(dags),
            CORE__PARALLELISM="1",
        )
        try:
            airflow.start_core()
            airflow.wait(lambda: len(airflow.call("GET", "dags")["dags"]) == 2, 240, "the DAGs")
            found = {count: _audit(airflow, f"shards{count}") for count in (FEW, MANY)}
        finally:
            airflow.stop()
    return {
        "one more shard, s": (found[MANY]["run"] - found[FEW]["run"]) / (MANY - FEW),
        "of that in its task, s": found[MANY]["task"],
        f"whole run of {FEW} shards, s": found[FEW]["run"],
        f"whole run of {MANY} shards, s": found[MANY]["run"],
    }


def _audit(airflow: Any, dag: str) -> dict[str, float]:
    airflow.call("PATCH", f"dags/{dag}", {"is_paused": False})
    run = airflow.call("POST", f"dags/{dag}/dagRuns", {"logical_date": None, "conf": {"window": "2026-02"}})
    state = airflow.wait_for_run(dag, run["dag_run_id"], 600)
    if state != "success":
        raise RuntimeError(f"Expected the audit of {dag} to succeed, but it is {state}.")
    done = airflow.call("GET", f"dags/{dag}/dagRuns/{run['dag_run_id']}")
    fits = [task for task in airflow.tasks(dag, run["dag_run_id"]) if task["task_id"] == "fit_shard"]
    begin, end = (datetime.fromisoformat(done[name]) for name in ("start_date", "end_date"))
    return {"run": (end - begin).total_seconds(), "task": statistics.median(task["duration"] for task in fits)}
