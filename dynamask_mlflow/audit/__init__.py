"""Explanation audits: windows, references, drift, verdicts. Knows MLflow, not Airflow. Public names load on use."""

from typing import TYPE_CHECKING

from dynamask_mlflow._lazy import lazy_names

if TYPE_CHECKING:
    from dynamask_mlflow._states import State
    from dynamask_mlflow.audit.config import AuditConfig
    from dynamask_mlflow.audit.errors import AuditError, NoDataError, TrackingLostError
    from dynamask_mlflow.audit.gate import GateLimits, GateResult, GateState, run_gate
    from dynamask_mlflow.audit.history import AuditEntry, audit_history
    from dynamask_mlflow.audit.pending import pending_windows, reconcile
    from dynamask_mlflow.audit.reference import (
        build_reference,
        finish_reference,
        load_reference,
        plan_reference,
        prepare_reference,
    )
    from dynamask_mlflow.audit.reporting import report_audit
    from dynamask_mlflow.audit.run import plan_audit, prepare_audit, run_audit
    from dynamask_mlflow.audit.runs import close_run
    from dynamask_mlflow.audit.shards import fit_shard, gather, plan_shards
    from dynamask_mlflow.audit.verdict import Verdict, Violation
    from dynamask_mlflow.audit.version_state import VersionState, publish_version_state, state_of_version
    from dynamask_mlflow.audit.versions import compare_audits

_HOMES = {
    "AuditConfig": "config",
    "AuditEntry": "history",
    "AuditError": "errors",
    "GateLimits": "gate",
    "GateResult": "gate",
    "GateState": "gate",
    "NoDataError": "errors",
    "State": "verdict",
    "TrackingLostError": "errors",
    "Verdict": "verdict",
    "VersionState": "version_state",
    "Violation": "verdict",
    "audit_history": "history",
    "build_reference": "reference",
    "close_run": "runs",
    "compare_audits": "versions",
    "finish_reference": "reference",
    "fit_shard": "shards",
    "gather": "shards",
    "load_reference": "reference",
    "pending_windows": "pending",
    "plan_audit": "run",
    "plan_reference": "reference",
    "plan_shards": "shards",
    "prepare_audit": "run",
    "prepare_reference": "reference",
    "publish_version_state": "version_state",
    "reconcile": "pending",
    "report_audit": "reporting",
    "run_audit": "run",
    "run_gate": "gate",
    "state_of_version": "version_state",
}

__all__ = [
    "AuditConfig",
    "AuditEntry",
    "AuditError",
    "GateLimits",
    "GateResult",
    "GateState",
    "NoDataError",
    "State",
    "TrackingLostError",
    "Verdict",
    "VersionState",
    "Violation",
    "audit_history",
    "build_reference",
    "close_run",
    "compare_audits",
    "finish_reference",
    "fit_shard",
    "gather",
    "load_reference",
    "pending_windows",
    "plan_audit",
    "plan_reference",
    "plan_shards",
    "prepare_audit",
    "prepare_reference",
    "publish_version_state",
    "reconcile",
    "report_audit",
    "run_audit",
    "run_gate",
    "state_of_version",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
