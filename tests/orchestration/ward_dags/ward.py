"""DAGs of the tests' ward, made by the package's factories."""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, BaseNotifier

from dynamask_mlflow.orchestration import (
    Execution,
    GateOptions,
    audit_task_group,
    build_audit_dag,
    build_reconcile_dag,
    build_reference_dag,
    gate_task,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from ward_settings import SETTINGS

ROOT = Path(os.environ["WARD"])
MODEL, DATA = "models:/ward-risk@champion", str(ROOT / "data")
QUICK = Execution(shards=2, retry_delay=timedelta(seconds=1), retries=1)
SHARED: dict[str, Any] = {"config": SETTINGS, "store": str(ROOT / "store"), "execution": QUICK}


class FileNotifier(BaseNotifier):
    """Writes a line; fails the first time if asked to."""

    template_fields = ("text",)

    def __init__(self, text: str, fails_once: bool = False) -> None:
        super().__init__()
        self.text, self.fails_once = text, fails_once

    def notify(self, context: Any) -> None:
        if self.fails_once and once("notifier"):
            raise ConnectionError("The pager does not answer.")
        with (ROOT / "told.txt").open("a") as file:
            file.write(f"{self.text}\n")


def once(name: str) -> bool:
    """True the first time."""
    marker = ROOT / f"once-{name}"
    if marker.exists():
        return False
    marker.touch()
    return True


def lose_connection(context: Any) -> None:
    if context["ti"].map_index == 0 and once("shard"):
        raise ConnectionError("The worker lost its network.")


def break_down(context: Any) -> None:
    raise ValueError("The fit cannot be done.")


def lose_server(context: Any, result: Any) -> None:
    """The tracking server dies when the last shard is fitted."""
    (ROOT / f"fitted-{context['ti'].map_index}").touch()
    if len(list(ROOT.glob("fitted-*"))) == 4 and once("server"):
        os.killpg(int((ROOT / "server.pid").read_text()), signal.SIGKILL)


def hold(context: Any) -> None:
    """Says where each shard runs; the first whose fit has come to its twentieth step stops there, to be killed."""
    import torch

    place = f"{context['ti'].map_index}-{context['ti'].try_number}"
    (ROOT / f"started-{place}").write_text(os.environ.get("WORKER", ""))
    steps = 0

    def count(module: torch.nn.Module, inputs: Any, output: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == 20 and once("hold"):
            (ROOT / "held.part").write_text(f"{os.environ.get('WORKER', '')} {context['ti'].map_index}")
            (ROOT / "held.part").rename(ROOT / "held")
            time.sleep(300)

    torch.nn.modules.module.register_module_forward_hook(count)


audit = build_audit_dag(MODEL, DATA, dag_id="ward_audit", **SHARED)
told = build_audit_dag(
    MODEL, DATA, dag_id="ward_told", experiment="told",
    notifiers=[FileNotifier("first: {{ audit.state }} {{ audit.window }}"),
               FileNotifier("second: {{ audit.window }}", fails_once=True)],
    **SHARED,
)  # fmt: skip
strict = build_audit_dag(MODEL, DATA, dag_id="ward_strict", experiment="strict", fail_on=["drift"], **SHARED)
lenient = build_audit_dag(MODEL, DATA, dag_id="ward_lenient", experiment="lenient", empty="skip", **SHARED)


def unlucky(name: str, retries: int, **hooks: Any) -> DAG:
    """Two shards whose fits meet with an accident."""
    execution = Execution(shards=2, retry_delay=timedelta(seconds=1), retries=retries, fit_options=hooks)
    return build_audit_dag(MODEL, DATA, dag_id=f"ward_{name}", experiment=name, **{**SHARED, "execution": execution})


fragile = unlucky("fragile", 2, pre_execute=lose_connection)
broken = unlucky("broken", 0, pre_execute=break_down)
lost = unlucky("lost", 1, post_execute=lose_server)
server = build_audit_dag(MODEL, DATA, dag_id="ward_server", assets=[Asset("ward_data")], **SHARED)
celery = build_audit_dag(
    MODEL,
    DATA,
    dag_id="ward_celery",
    cron=None,
    **{
        **SHARED,
        "execution": Execution(
            shards=6, retry_delay=timedelta(seconds=1), retries=2, fit_options={"pre_execute": hold}, queue="fits"
        ),
    },
)
reference = build_reference_dag(MODEL, DATA, dag_id="ward_reference", **SHARED)
reconcile = build_reconcile_dag(
    MODEL, DATA, dag_id="ward_reconcile", audit_dag_id="ward_lenient", experiment="reconciled", limit=2, **SHARED
)
with DAG("ward_group", schedule=None, catchup=False) as grouped:
    audit_task_group(MODEL, DATA, window="2026-0{{ 1 + 1 }}", experiment="grouped", **SHARED)


def gate_dag(dag_id: str, minimum: int, **options: Any) -> DAG:
    with DAG(dag_id, schedule=None) as made:
        gate_task(
            "models:/ward-risk@candidate",
            "@champion",
            DATA,
            limits={"minimum": minimum},
            config=SETTINGS,
            options=GateOptions(window="2026-02", store=str(ROOT / "store"), **options),
            execution=QUICK,
        )
    return made


gate = gate_dag("ward_gate", minimum=20)
strict_gate = gate_dag("ward_strict_gate", minimum=1_000_000, fail_on=("refused", "inconclusive"))
