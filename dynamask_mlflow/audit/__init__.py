"""Explanation audits: windows, references, drift, verdicts. Knows MLflow, not Airflow. Public names load on use."""

from typing import TYPE_CHECKING

from dynamask_mlflow._lazy import lazy_names

if TYPE_CHECKING:
    from dynamask_mlflow._states import State
    from dynamask_mlflow.audit.bundle import write_evidence
    from dynamask_mlflow.audit.config import AuditConfig
    from dynamask_mlflow.audit.errors import AuditError, DataLostError, NoDataError, TrackingLostError
    from dynamask_mlflow.audit.gate import GateLimits, GateResult, GateState, run_gate
    from dynamask_mlflow.audit.history import AuditEntry, audit_history
    from dynamask_mlflow.audit.labels import add_labels, read_labels
    from dynamask_mlflow.audit.pending import pending_windows, reconcile
    from dynamask_mlflow.audit.pruning import list_references, prune_references, prune_store
    from dynamask_mlflow.audit.records import (
        AuditRequest,
        AuditResult,
        AuditSource,
        ReferenceRequest,
        ReferenceResult,
        ShardGroup,
        ShardResult,
        ShardSpec,
        StaySource,
        request_from_dict,
    )
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
    from dynamask_mlflow.audit.verify import TamperedError, Verification, verify_evidence
    from dynamask_mlflow.audit.version_state import VersionState, publish_version_state, state_of_version
    from dynamask_mlflow.audit.versions import compare_audits

_HOMES = {
    "AuditConfig": "config",
    "AuditEntry": "history",
    "AuditError": "errors",
    "DataLostError": "errors",
    "AuditRequest": "records",
    "AuditResult": "records",
    "AuditSource": "records",
    "GateLimits": "gate",
    "GateResult": "gate",
    "GateState": "gate",
    "NoDataError": "errors",
    "ReferenceRequest": "records",
    "ReferenceResult": "records",
    "ShardGroup": "records",
    "ShardResult": "records",
    "ShardSpec": "records",
    "State": "verdict",
    "StaySource": "records",
    "TamperedError": "verify",
    "TrackingLostError": "errors",
    "Verdict": "verdict",
    "Verification": "verify",
    "VersionState": "version_state",
    "Violation": "verdict",
    "add_labels": "labels",
    "audit_history": "history",
    "build_reference": "reference",
    "close_run": "runs",
    "compare_audits": "versions",
    "finish_reference": "reference",
    "fit_shard": "shards",
    "gather": "shards",
    "list_references": "pruning",
    "load_reference": "reference",
    "pending_windows": "pending",
    "plan_audit": "run",
    "plan_reference": "reference",
    "plan_shards": "shards",
    "prepare_audit": "run",
    "prepare_reference": "reference",
    "prune_references": "pruning",
    "prune_store": "pruning",
    "publish_version_state": "version_state",
    "read_labels": "labels",
    "reconcile": "pending",
    "report_audit": "reporting",
    "request_from_dict": "records",
    "run_audit": "run",
    "run_gate": "gate",
    "state_of_version": "version_state",
    "verify_evidence": "verify",
    "write_evidence": "bundle",
}

__all__ = [
    "AuditConfig",
    "AuditEntry",
    "AuditError",
    "AuditRequest",
    "AuditResult",
    "AuditSource",
    "DataLostError",
    "GateLimits",
    "GateResult",
    "GateState",
    "NoDataError",
    "ReferenceRequest",
    "ReferenceResult",
    "ShardGroup",
    "ShardResult",
    "ShardSpec",
    "State",
    "StaySource",
    "TamperedError",
    "TrackingLostError",
    "Verdict",
    "Verification",
    "VersionState",
    "Violation",
    "add_labels",
    "audit_history",
    "build_reference",
    "close_run",
    "compare_audits",
    "finish_reference",
    "fit_shard",
    "gather",
    "list_references",
    "load_reference",
    "pending_windows",
    "plan_audit",
    "plan_reference",
    "plan_shards",
    "prepare_audit",
    "prepare_reference",
    "prune_references",
    "prune_store",
    "publish_version_state",
    "read_labels",
    "reconcile",
    "report_audit",
    "request_from_dict",
    "run_audit",
    "run_gate",
    "state_of_version",
    "verify_evidence",
    "write_evidence",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
