"""Audits on Airflow 3: factories of DAGs and task groups, a connection, a notifier, a link. Public names load on use.

Nothing here imports torch or MLflow before a task runs: DAG files are parsed often, and Airflow forks.
"""

from typing import TYPE_CHECKING

from dynamask_mlflow._lazy import lazy_names

if TYPE_CHECKING:
    from dynamask_mlflow.orchestration.dag import build_audit_dag
    from dynamask_mlflow.orchestration.gate import GateOptions, gate_task
    from dynamask_mlflow.orchestration.group import audit_task_group
    from dynamask_mlflow.orchestration.hook import MlflowHook
    from dynamask_mlflow.orchestration.link import MlflowRunLink
    from dynamask_mlflow.orchestration.notifier import MlflowTagNotifier
    from dynamask_mlflow.orchestration.options import Execution
    from dynamask_mlflow.orchestration.reconcile_dag import build_reconcile_dag
    from dynamask_mlflow.orchestration.reference_dag import build_reference_dag
    from dynamask_mlflow.orchestration.windows import resolve_window

_HOMES = {
    "Execution": "options",
    "GateOptions": "gate",
    "MlflowHook": "hook",
    "MlflowRunLink": "link",
    "MlflowTagNotifier": "notifier",
    "audit_task_group": "group",
    "build_audit_dag": "dag",
    "build_reconcile_dag": "reconcile_dag",
    "build_reference_dag": "reference_dag",
    "gate_task": "gate",
    "resolve_window": "windows",
}

__all__ = [
    "Execution",
    "GateOptions",
    "MlflowHook",
    "MlflowRunLink",
    "MlflowTagNotifier",
    "audit_task_group",
    "build_audit_dag",
    "build_reconcile_dag",
    "build_reference_dag",
    "gate_task",
    "resolve_window",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
