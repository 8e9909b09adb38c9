"""One audit in steps that may run in separate processes: prepare, plan, fit each shard, report.

Every step takes and returns small things that JSON can hold. `run_audit` does them all in one process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dynamask_mlflow.audit import publish
from dynamask_mlflow.audit.comparison import MEASURED, blocked, compare_shards
from dynamask_mlflow.audit.config import AuditConfig, digest
from dynamask_mlflow.audit.decide import decide
from dynamask_mlflow.audit.errors import AuditError, TrackingLostError, is_lasting
from dynamask_mlflow.audit.models import ModelRef, resolve_model
from dynamask_mlflow.audit.page import render_audit
from dynamask_mlflow.audit.reference import (
    EXPERIMENT,
    _close_failed,
    load_reference,
    pinned_reference,
    previous_reference,
    reference_record,
)
from dynamask_mlflow.audit.shards import checked_store, plan_shards
from dynamask_mlflow.audit.verdict import Verdict
from dynamask_mlflow.audit.windows import dataset_channels, dataset_digest, draw, find_rows, parse_window
from dynamask_mlflow.audit.workers import Workers
from dynamask_mlflow.tracking.errors import first_line
from dynamask_mlflow.tracking.profile import plain
from dynamask_mlflow.tracking.retries import short_retries

VERDICT_FILE = "dynamask/verdict.json"
VIOLATIONS, REPORT = "dynamask/violations.json", "dynamask/audit.html"


def prepare_audit(
    model: str,
    data: str,
    window: str,
    *,
    split: str | None = None,
    config: AuditConfig | None = None,
    store: str | None = None,
    experiment: str = EXPERIMENT,
    reference_run_id: str | None = None,
) -> dict[str, Any]:
    """Pin alias and reference, choose the stays, open or resume the run. Returns a request for the next steps."""
    config = config or AuditConfig()
    ref, span = resolve_model(model), parse_window(window)
    rows = draw(find_rows(data, span, split), config.instances, config.seed, span.label)
    found = reference_run_id or pinned_reference(ref) or previous_reference(ref)
    if found is None:
        raise AuditError(
            f"Expected a reference for {ref.name} version {ref.version}, but there is none; make one with "
            f"`dynamask-mlflow audit reference --model {ref.uri} --data ... --window ...`."
        )
    record = reference_record(found)
    blockers = {}
    if record["explainer_digest"] != config.explainer_digest:
        blockers["settings"] = "The reference was explained with other settings: its masks cannot be compared."
    if tuple(record["channels"]) != dataset_channels(data):
        other = sorted(set(record["channels"]) ^ set(dataset_channels(data)))
        blockers["channels"] = "The reference has other channels than the data: " + (
            f"they differ in {', '.join(other[:5])}." if other else "they stand in another order."
        )
    key = digest(["audit", ref.to_dict(), span.label, split, config.audit_digest])
    tags = {
        publish.KIND: "audit",
        publish.MODEL: ref.name,
        publish.VERSION: ref.version,
        publish.WINDOW: span.label,
        publish.WINDOW_START: span.start or "",
        publish.REFERENCE: found,
    }
    run_id = publish.find_or_create_run(experiment, key, f"audit {ref.name} v{ref.version} {span.label}", tags)
    return {
        "kind": "audit",
        "model": ref.to_dict(),
        "data": data,
        "window": span.label,
        "split": split,
        "rows": [int(row) for row in rows],
        "config": config.to_dict(),
        "store": checked_store(store),
        "experiment": experiment,
        "run_id": run_id,
        "key": key,
        "reference_run_id": found,
        "reference_model": record["model"],
        "blockers": blockers,
    }


def plan_audit(request: dict[str, Any], shards: int | None = None, least: int = 1) -> list[str]:
    """Shards of the window and of the canary; for a new version also those that tell data and model apart.

    None at all if the reference cannot be compared with: then nothing is worth fitting. `shards`: of a window; None:
    as few as `shard_seconds` allows, but no fewer than `least`.
    """
    if request["blockers"]:
        return []
    config, ref = AuditConfig.from_mapping(request["config"]), ModelRef.from_dict(request["model"])
    store, old = str(request["store"]), ModelRef.from_dict(request["reference_model"])
    stays = {"stays": request["data"], "rows": request["rows"], "hashed": config.hash_ids}
    uris = plan_shards(ref, stays, config, store, shards=shards, least=least, keep=config.report_instances)
    reference = load_reference(request["reference_run_id"])
    if reference.inputs is not None:
        kept = Path(store.removeprefix("file://")) / "references" / reference.run_id / "anchor_inputs.npz"
        if not kept.is_file():  # workers may not see where MLflow downloads to
            from dynamask_mlflow.tracking.spool import write_whole

            write_whole(kept, Path(reference.inputs).read_bytes())
        anchors = {"sequences": str(kept)}
        count = len(reference.anchors or ())
        uris += plan_shards(
            old, anchors, config, store, shards=1, keep=count, role="canary", salt=f"canary {request['window']}"
        )
        if old != ref:
            uris += plan_shards(ref, anchors, config, store, shards=1, role="new_anchors")
    if old != ref:
        uris += plan_shards(old, stays, config, store, shards=shards, least=least, role="old_window")
    return uris


def report_audit(request: dict[str, Any], uris: Sequence[str]) -> dict[str, Any]:
    """Compare, decide, log, tag. Returns the verdict as a dictionary, with the run's id.

    Raises `TrackingLostError` if MLflow does not answer, `AuditError` if it refuses; what was fitted is kept.
    """
    from mlflow.exceptions import MlflowException

    try:
        with short_retries():
            return _report(request, uris)
    except (MlflowException, OSError) as error:
        first = first_line(error)
        if is_lasting(error):
            raise AuditError(f"MLflow refused the results: {first} The fits are in {request['store']}.") from error
        raise TrackingLostError(
            f"The audit is fitted, but its results could not be logged: {first} The fits are in {request['store']}; "
            "run the audit again."
        ) from error


def _report(request: dict[str, Any], uris: Sequence[str]) -> dict[str, Any]:
    config, ref = AuditConfig.from_mapping(request["config"]), ModelRef.from_dict(request["model"])
    run_id, span = str(request["run_id"]), parse_window(request["window"])
    about = {
        "model": ref.name,
        "version": ref.version,
        "window": span.label,
        "reference_run_id": request["reference_run_id"],
    }
    history = [
        entry
        for entry in publish.audit_history(request["experiment"], ref.name, ref.version)
        if entry.run_id != run_id and entry.start < (span.start or "~")
    ]
    files: dict[str, Any] = {}
    if request["blockers"]:
        verdict = decide(blocked(request), config, **about)
    else:
        found = compare_shards(request, uris, config, history)
        verdict = decide(found.evidence, config, **about)
        page = render_audit(
            verdict,
            found.evidence,
            found.reference,
            found.current,
            history,
            config,
            reference_label=found.label,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            task=found.current.record.get("config", {}).get("task", "classification"),
        )
        if page is not None:
            files[REPORT] = page
        if len(found.current):
            folder = Path(str(request["store"]).removeprefix("file://")) / "audits" / str(request["key"])
            files[MEASURED] = found.current.save(folder / "measured.npz")
            by_channel, by_time, by_cell = found.current.mean_shares()
            profile = {"by_channel": plain(by_channel), "by_time": plain(by_time), "by_cell": plain(by_cell)}
            names = {"channels": list(found.current.channel_names), "times": list(found.current.times)}
            files["dynamask/profile.json"] = json.dumps(names | profile)
    files |= {VERDICT_FILE: verdict.to_json(), VIOLATIONS: verdict.violations_json()}
    files["dynamask/config.json"] = json.dumps(config.to_dict(), indent=1)
    dataset = (Path(request["data"]).name or "dataset", dataset_digest(request["data"])[:36])
    publish.upload_results(run_id, files, verdict.metrics, timestamp=span.stop_ms, dataset=dataset)
    entries = publish.audit_history(request["experiment"], ref.name, ref.version)
    publish.mark_version(ref, verdict, run_id, entries)
    publish.close_run(run_id)
    return {**verdict.to_dict(), "run_id": run_id}


def run_audit(
    model: str,
    data: str,
    window: str,
    *,
    progress: Callable[[dict[str, Any]], None] | None = None,
    processes: int = 1,
    **options: Any,
) -> Verdict:
    """All steps, with the fits in this process and in others beside it.

    More than one process needs a main module that can be imported, as for any `multiprocessing` with spawn.
    """
    with Workers(processes) as workers:
        request = prepare_audit(model, data, window, **options)
        try:
            uris = plan_audit(request, least=workers.least_shards)
            workers.fit(uris, progress)
            record = report_audit(request, uris)
        except BaseException:
            _close_failed(request["run_id"])
            raise
    return Verdict.from_dict({k: v for k, v in record.items() if k != "run_id"})
