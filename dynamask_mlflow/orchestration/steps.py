"""The one place where Airflow code calls `audit`. Everything in and out is small and JSON-able."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamask_mlflow.audit import AuditResult, ReferenceResult

MAX_SHARDS = 1000  # Airflow maps at most 1024 by default


def open_audit(source: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Open or resume the audit of a window; raises `NoDataError` if it is empty."""
    from dynamask_mlflow.audit import AuditConfig, AuditSource, prepare_audit

    return prepare_audit(AuditSource.from_dict(source), AuditConfig.from_mapping(config)).to_dict()


def open_reference(source: Mapping[str, Any], config: Mapping[str, Any], rebuild: bool) -> dict[str, Any] | None:
    """Open or resume the reference of a version; None if it has one that was explained with the same settings."""
    from dynamask_mlflow.audit import AuditConfig, AuditSource, prepare_reference
    from dynamask_mlflow.audit.models import resolve_model
    from dynamask_mlflow.audit.reference import pinned_reference, reference_record

    wanted, what = AuditConfig.from_mapping(config), AuditSource.from_dict(source)
    ref = resolve_model(what.model)
    pinned = pinned_reference(ref, what.site)
    if pinned and not rebuild and reference_record(pinned)["explainer_digest"] == wanted.explainer_digest:
        return None
    return prepare_reference(replace(what, model=ref.uri), wanted).to_dict()


def gate(
    source: Mapping[str, Any], limits: Mapping[str, Any], config: Mapping[str, Any], threads: int | None
) -> dict[str, Any]:
    """What the gate says of a version, which is recorded on it."""
    from dynamask_mlflow.audit import AuditConfig, AuditSource, GateLimits, run_gate

    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    found = run_gate(
        AuditSource.from_dict(source),
        source["against"],
        limits=GateLimits.from_mapping(limits),
        config=AuditConfig.from_mapping(config),
    )
    about = {"model": found.model, "version": found.version, "against": found.against, "window": found.window}
    return {**about, "state": str(found.state), "stays": found.stays, "reasons": list(found.reasons)}


def pending(source: Mapping[str, Any], config: Mapping[str, Any], period: str) -> list[str]:
    """Windows that have stays, and no finished audit of them."""
    from dynamask_mlflow.audit import AuditConfig, AuditSource, pending_windows

    return pending_windows(AuditSource.from_dict(source), period=period, config=AuditConfig.from_mapping(config))


def plan(request: Mapping[str, Any], shards: int | None) -> list[dict[str, str]]:
    """The shards, each with a label that people can read."""
    uris = _planned(request, shards)
    if len(uris) > MAX_SHARDS:
        uris = _planned(request, MAX_SHARDS // 2 - 10)  # a new version has two sets of shards, and a few single ones
    return _labelled(uris)


def _planned(stored: Mapping[str, Any], shards: int | None) -> list[str]:
    from dynamask_mlflow.audit import AuditRequest, plan_audit, plan_reference, request_from_dict

    request = request_from_dict(stored)
    if isinstance(request, AuditRequest):
        return plan_audit(request, shards)
    return plan_reference(request, shards)


def fitted(uri: str) -> dict[str, Any] | None:
    """The shard's account, if it was fitted before: found without torch and MLflow, whose imports cost seconds."""
    from dynamask_mlflow.audit.shards import fitted_shard

    done = fitted_shard(uri)
    return None if done is None else done.to_dict()


def fit(uri: str, threads: int | None) -> dict[str, Any]:
    """Fit one shard. Threads are set before torch does anything, since the process may be a fork."""
    import torch

    from dynamask_mlflow.audit import fit_shard

    if threads is not None:
        torch.set_num_threads(threads)
    return fit_shard(uri).to_dict()


def report(stored: Mapping[str, Any], uris: Sequence[str]) -> dict[str, Any]:
    """Compare, decide, log. For a reference: join, log, pin."""
    from dynamask_mlflow.audit import AuditRequest, finish_reference, report_audit, request_from_dict

    request = request_from_dict(stored)
    found: AuditResult | ReferenceResult
    found = report_audit(request, uris) if isinstance(request, AuditRequest) else finish_reference(request, uris)
    return {**found.to_dict(), "experiment": request.experiment}


def note_failure(source: Mapping[str, Any], error: BaseException) -> None:
    """Say on the version that the window of `source`, or of a request, could not be audited."""
    from dynamask_mlflow.audit import AuditSource
    from dynamask_mlflow.audit.run import tell_failure

    tell_failure(AuditSource.from_dict(source), error)


def noted_failure(source: Mapping[str, Any]) -> tuple[str, str]:
    """The version that was to be audited, and why it could not be; empty where nothing was noted."""
    from dynamask_mlflow.audit import AuditSource
    from dynamask_mlflow.audit.run import noted_failure

    return noted_failure(AuditSource.from_dict(source))


def close(run_id: str) -> bool:
    """Close a run that was left open, as failed. Returns whether it was."""
    from mlflow import MlflowClient

    from dynamask_mlflow.audit import close_run

    if MlflowClient().get_run(run_id).info.status == "FINISHED":
        return False
    close_run(run_id, failed=True)
    return True


def run_path(run_id: str) -> str:
    """Where MLflow's UI shows a run, below its root."""
    from mlflow import MlflowClient

    return f"#/experiments/{MlflowClient().get_run(run_id).info.experiment_id}/runs/{run_id}"


def _labelled(uris: Sequence[str]) -> list[dict[str, str]]:
    roles = [Path(uri).stem.partition("-")[2].replace("_", " ") or "shard" for uri in uris]
    total, seen = Counter(roles), Counter[str]()
    labelled = []
    for uri, role in zip(uris, roles, strict=True):
        seen[role] += 1
        number = f" {seen[role]} of {total[role]}" if total[role] > 1 else ""
        labelled.append({"uri": uri, "label": f"{role}{number}"})
    return labelled
