"""What audits leave in MLflow: one run for each window, tags on the version, a section in its description."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamask_mlflow.audit.models import ModelRef
from dynamask_mlflow.audit.verdict import Verdict
from dynamask_mlflow.tracking.filters import tag_equals
from dynamask_mlflow.tracking.metric_log import Point

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

KEY, KIND, MODEL, VERSION = "dynamask.audit_key", "dynamask.kind", "dynamask.model", "dynamask.version"
WINDOW, WINDOW_START = "dynamask.window", "dynamask.window_start"
VERDICT, AUDITED_AT = "dynamask.verdict", "dynamask.audited_at"
REFERENCE, FINGERPRINT = "dynamask.reference_run_id", "dynamask.finding"
PREFIX = "dynamask/audit"
_BEGIN, _END = "<!-- dynamask audit -->", "<!-- /dynamask audit -->"


def find_or_create_run(experiment: str, key: str, name: str, tags: Mapping[str, str]) -> str:
    """The one run with this key in the experiment, opened anew, or a new one."""
    from mlflow import MlflowClient

    client = MlflowClient()
    home = _experiment(client, experiment)
    matches = client.search_runs([home], tag_equals(KEY, key), order_by=["attributes.start_time ASC"])
    found = [run for run in matches if run.data.tags[KEY] == key]
    if found:
        run_id = str(found[0].info.run_id)
        client.update_run(run_id, status="RUNNING")
    else:
        run_id = str(client.create_run(home, tags={**tags, KEY: key}, run_name=name).info.run_id)
    for tag, value in tags.items():
        if not found or found[0].data.tags.get(tag) != value:
            client.set_tag(run_id, tag, value)
    return run_id


def close_run(run_id: str, failed: bool = False) -> None:
    from mlflow import MlflowClient

    MlflowClient().set_terminated(run_id, "FAILED" if failed else "FINISHED")


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

    from dynamask_mlflow.tracking.retries import patiently
    from dynamask_mlflow.tracking.spool import ARTIFACTS, discard, new_spool, seal, write_whole
    from dynamask_mlflow.tracking.upload import upload

    uri = mlflow.get_tracking_uri()
    spool = new_spool(None, run_id)
    try:
        for name, content in files.items():
            target = spool / ARTIFACTS / name
            if isinstance(content, Path):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(content, target)
            else:
                write_whole(target, content)
        seal(
            spool,
            run_id=run_id,
            tracking_uri=uri,
            model_id=None,
            link_model=False,
            dataset=dataset,
            points=[Point(f"{PREFIX}/{name}", value) for name, value in metrics.items()],
            tables=[],
            files=list(files),
            timestamp=timestamp,
        )
        patiently(lambda: upload(spool, uri))
    except BaseException:
        discard(spool)
        raise


def mark_version(ref: ModelRef, verdict: Verdict, run_id: str, history: Sequence[AuditEntry]) -> None:
    """Tags on the run and on the version, and the audit section of the version's description."""
    from mlflow import MlflowClient

    client = MlflowClient()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    client.set_tag(run_id, VERDICT, verdict.state)
    client.set_tag(run_id, FINGERPRINT, verdict.fingerprint)
    client.set_tag(run_id, "mlflow.note.content", "\n".join(f"- {reason}" for reason in verdict.reasons))
    tags = {VERDICT: verdict.state, AUDITED_AT: now, "dynamask.audited_window": verdict.window}
    if verdict.reference_run_id:
        client.set_tag(run_id, REFERENCE, verdict.reference_run_id)
    for tag, value in tags.items():
        client.set_model_version_tag(ref.name, ref.version, tag, value)
    before = client.get_model_version(ref.name, ref.version).description or ""
    client.update_model_version(ref.name, ref.version, with_section(before, _section(verdict, now, history)))


def pin_reference(ref: ModelRef, run_id: str, window: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient()
    client.set_model_version_tag(ref.name, ref.version, REFERENCE, run_id)
    client.set_model_version_tag(ref.name, ref.version, "dynamask.reference_window", window)


def with_section(description: str, section: str) -> str:
    """The description with its audit section replaced, or added at the end; the rest stays as people wrote it."""
    whole = f"{_BEGIN}\n{section}\n{_END}"
    pattern = re.compile(re.escape(_BEGIN) + ".*?" + re.escape(_END), re.DOTALL)
    if pattern.search(description):
        return pattern.sub(lambda _: whole, description, count=1)
    return f"{description.rstrip()}\n\n{whole}".lstrip()


@dataclass(frozen=True)
class AuditEntry:
    """One audit of the past: its window, verdict and numbers."""

    run_id: str
    window: str
    start: str
    version: str
    verdict: str
    reference_run_id: str
    metrics: Mapping[str, float]


def audit_history(experiment: str, name: str, version: str | None = None) -> list[AuditEntry]:
    """All complete audits of a model, or of one version, in the order of their windows."""
    from mlflow import MlflowClient

    client = MlflowClient()
    home = client.get_experiment_by_name(experiment)
    if home is None:
        return []
    wanted = f"{tag_equals(KIND, 'audit')} and {tag_equals(MODEL, name)}"
    if version is not None:
        wanted += f" and {tag_equals(VERSION, version)}"
    found: list[Run] = []
    page = client.search_runs([home.experiment_id], wanted)
    while True:
        found += page
        if not page.token:
            break
        page = client.search_runs([home.experiment_id], wanted, page_token=page.token)
    entries = [_entry(run) for run in found if VERDICT in run.data.tags and run.data.tags[MODEL] == name]
    return sorted(entries, key=lambda entry: (entry.start, entry.version))


def _entry(run: Run) -> AuditEntry:
    tags = run.data.tags
    return AuditEntry(
        run_id=run.info.run_id,
        window=tags.get(WINDOW, ""),
        start=tags.get(WINDOW_START, ""),
        version=tags.get(VERSION, ""),
        verdict=tags[VERDICT],
        reference_run_id=tags.get(REFERENCE, ""),
        metrics={
            key.removeprefix(f"{PREFIX}/"): value
            for key, value in run.data.metrics.items()
            if key.startswith(f"{PREFIX}/")
        },
    )


def _section(verdict: Verdict, when: str, history: Sequence[AuditEntry]) -> str:
    lines = [f"### Explanation audit: {verdict.state}", f"Window {verdict.window}, audited {when}.", ""]
    lines += [f"- {reason}" for reason in verdict.reasons[:4]]
    if history:
        lines += ["", "| window | verdict | channels | hours |", "| --- | --- | --- | --- |"]
        for entry in history[-6:]:
            shown = [
                f"{100 * entry.metrics[k]:.1f} %" if k in entry.metrics else "-"
                for k in ("moved_channels", "moved_hours")
            ]
            lines.append(f"| {entry.window} | {entry.verdict} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _experiment(client: MlflowClient, name: str) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException:
        found = client.get_experiment_by_name(name)  # another process was faster
        if found is None:
            raise
        return str(found.experiment_id)


def read_artifact_json(run_id: str, name: str) -> dict[str, Any]:
    from mlflow.artifacts import download_artifacts

    path = download_artifacts(run_id=run_id, artifact_path=name)
    record: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return record
