"""What an audit leaves in its run: files and metrics by way of a spool, the verdict, links to what it supersedes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.history import PREFIX, AuditEntry
from dynamask_mlflow.audit.identity import site_tag
from dynamask_mlflow.audit.models import ModelRef
from dynamask_mlflow.audit.verdict import Verdict
from dynamask_mlflow.tracking.spool import Point


def upload_results(
    run_id: str,
    files: Mapping[str, str | bytes | Path],
    metrics: Mapping[str, float],
    *,
    timestamp: int,
    dataset: tuple[str, str],
) -> None:
    """Write everything to a spool first, so that it is checked as a whole. If the server is lost the spool goes: the
    fits are kept, and the audit that is run again writes it anew.
    """
    import shutil

    import mlflow

    from dynamask_mlflow.tracking.spool import ARTIFACTS, Destination, discard, new_spool, write_manifest
    from dynamask_mlflow.tracking.upload import patiently, upload

    uri = mlflow.get_tracking_uri()
    spool = new_spool(None, run_id)
    try:
        for name, content in files.items():
            target = spool / ARTIFACTS / name
            if isinstance(content, Path):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(content, target)
            else:
                atomic_write(target, content)
        write_manifest(
            spool,
            Destination(
                run_id=run_id,
                tracking_uri=uri,
                dataset_name=dataset[0],
                dataset_digest=dataset[1],
                timestamp=timestamp,
            ),
            points=[Point(f"{PREFIX}/{name}", value) for name, value in metrics.items()],
            files=list(files),
        )
        patiently(lambda: upload(spool, uri))
    except BaseException:
        discard(spool)
        raise


def conclude_run(run_id: str, verdict: Verdict, trend: str) -> None:
    """Write the verdict on the run; from now on it is an audit of the history. The verdict's tag comes last."""
    from mlflow import MlflowClient

    client = MlflowClient()
    finding = {
        "kinds": sorted({violation.kind for violation in verdict.violations}),
        "channels": list(verdict.channels)[:60],
        "inputs": [v.subject for v in verdict.violations if v.kind == "inputs"][:60],
        "reason": next(iter(verdict.reasons), "")[:400],
    }
    tags = {
        t.FINDING: json.dumps(finding)[: t.LONGEST],
        t.TREND: trend,
        t.AUDITED_AT: datetime.now(UTC).isoformat(timespec="microseconds"),
        "mlflow.note.content": "\n".join(f"- {text}" for text in (*verdict.reasons, *verdict.diagnosis)),
        t.VERDICT: str(verdict.state),
    }
    for tag, value in tags.items():
        client.set_tag(run_id, tag, value)


def link_superseded(entries: list[AuditEntry], run_id: str) -> None:
    """Tags both ways between the audits of a slot, oldest conclusion first; only those that differ are written."""
    from mlflow import MlflowClient

    client = MlflowClient()
    slot = next((entry.slot for entry in entries if entry.run_id == run_id), None)
    same = sorted((e for e in entries if slot and e.slot == slot), key=lambda e: (e.audited_at, e.run_id))
    for place, entry in enumerate(same):
        stored = client.get_run(entry.run_id).data.tags
        wanted = {
            t.SUPERSEDES: same[place - 1].run_id if place else None,
            t.SUPERSEDED_BY: same[place + 1].run_id if place + 1 < len(same) else None,
        }
        for tag, value in wanted.items():
            if value is not None and stored.get(tag) != value:
                client.set_tag(entry.run_id, tag, value)
            elif value is None and tag in stored:
                client.delete_tag(entry.run_id, tag)


def pin_reference(ref: ModelRef, run_id: str, window: str, site: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient()
    client.set_model_version_tag(ref.name, ref.version, site_tag(t.REFERENCE, site), run_id)
    client.set_model_version_tag(ref.name, ref.version, site_tag(t.REFERENCE_WINDOW, site), window)


def read_artifact_json(run_id: str, name: str) -> dict[str, Any]:
    from mlflow.artifacts import download_artifacts

    path = download_artifacts(run_id=run_id, artifact_path=name)
    record: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return record
