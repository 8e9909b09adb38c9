"""The last step of an audit: compare, decide, log, say on the version what is so, and keep later trends true."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow._json import plain
from dynamask_mlflow._printable import printable
from dynamask_mlflow._provenance import digest
from dynamask_mlflow._secrets import first_line
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.artifacts import CONFIG, CULPRITS, MADE_FROM, PROFILE, REPORT, SUBGROUPS, VERDICT, VIOLATIONS
from dynamask_mlflow.audit.compare_shards import Comparison, compare_shards, search_culprits, trend_entries, trend_label
from dynamask_mlflow.audit.comparison import MadeFrom, not_compared
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.culprit import Culprit, culprits_json
from dynamask_mlflow.audit.errors import AuditError, TrackingLostError, is_lasting
from dynamask_mlflow.audit.history import AuditEntry, audit_history
from dynamask_mlflow.audit.page import render_audit
from dynamask_mlflow.audit.records import AuditRequest, AuditResult
from dynamask_mlflow.audit.runs import (
    close_run,
    conclude_run,
    copied_run,
    download,
    exclusive,
    link_superseded,
    upload_results,
)
from dynamask_mlflow.audit.verdict import Verdict, evaluate_verdict
from dynamask_mlflow.audit.version_state import publish_version_state
from dynamask_mlflow.audit.windows import parse_window
from dynamask_mlflow.tracking.upload import short_retries

_logger = logging.getLogger(__name__)


def report_audit(request: AuditRequest, uris: Sequence[str]) -> AuditResult:
    """Compare, decide, log, tag. Returns the verdict with the run's id.

    Raises `TrackingLostError` if MLflow does not answer, `AuditError` if it refuses; what was fitted is kept.

    >>> from dynamask_mlflow.audit import AuditSource, fit_shard, plan_audit, prepare_audit
    >>> source = AuditSource(model="models:/icu-mortality@champion", data="icu", window="2025-12")
    >>> request = prepare_audit(source, AuditConfig(instances=100, anchors=5))
    >>> uris = plan_audit(request)
    >>> done = [fit_shard(uri) for uri in uris]
    >>> report_audit(request, uris).verdict.window
    '2025-12'
    """
    from mlflow.exceptions import MlflowException

    try:
        # One conclusion of a series at a time: each looks at the others to see what its trend is made of.
        with short_retries(), exclusive(request.store, request.series):
            result = _conclude(request, uris)
            entries = _entries(request)
            link_superseded(entries, result.run_id)
            _refresh_later(request, entries)
        with short_retries():
            publish_version_state(result.verdict.model, result.verdict.version, request.experiment)
        return result
    except (MlflowException, OSError) as error:
        first = first_line(error)
        if is_lasting(error):
            raise AuditError(f"MLflow refused the results: {first} The fits are in {request.store}.") from error
        raise TrackingLostError(
            f"The audit is fitted, but its results could not be logged: {first} The fits are in {request.store}; "
            "run the audit again."
        ) from error


def _conclude(request: AuditRequest, uris: Sequence[str]) -> AuditResult:
    """One audit, from its shards to its run."""
    config, ref = request.config, request.model
    span = parse_window(request.window)
    about: dict[str, Any] = {
        "model": ref.name,
        "version": ref.version,
        "site": request.site,
        "window": span.label,
        "content": request.content,
        "reference_run_id": request.reference_run_id,
    }
    earlier = [entry for entry in _series(request, _entries(request)) if entry.start < (span.start or "~")]
    found: Comparison | None = None
    culprits: tuple[Culprit, ...] = ()
    if request.blockers:
        verdict = evaluate_verdict(not_compared(request.blockers), config, **about)
    else:
        found = compare_shards(request, uris, config, earlier)
        culprits = search_culprits(found, request, config)
        verdict = evaluate_verdict(found.result, config, culprits, **about)
    trend = "" if found is None else found.trend
    run_id = _run_with_trend(request, trend)
    files = verdict_files(verdict, config)
    if found is None:
        none = MadeFrom(reference_run_id=request.reference_run_id, compared_with="", blockers=dict(request.blockers))
        files[MADE_FROM] = none.to_json()
    else:
        files |= comparison_files(verdict, found, culprits, earlier, config, _folder(request))
    dataset = (Path(request.data).name or "dataset", request.content[:36])
    upload_results(run_id, files, verdict.metrics, timestamp=span.stop_ms, dataset=dataset)
    _keep_request(request, uris)
    conclude_run(run_id, verdict, trend)
    for each in dict.fromkeys((run_id, request.run_id)):
        close_run(each)
    return AuditResult(verdict, run_id)


def stored_culprits(run_id: str) -> tuple[Culprit, ...]:
    """Where the findings of an audit sit, as it was told; nothing for an audit of an earlier release."""
    try:
        stored = json.loads(download(run_id, CULPRITS).read_text(encoding="utf-8"))
    except (OSError, AuditError):
        return ()
    return tuple(map(Culprit.from_dict, stored))


def _entries(request: AuditRequest) -> list[AuditEntry]:
    """All audits of the version at the site."""
    return audit_history(request.experiment, request.model.name, request.model.version, site=request.site)


def _series(request: AuditRequest, entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """The current audits of the same series, but for the window's own."""
    current = (e for e in entries if not e.superseded and e.series == request.series)
    return [e for e in current if e.window != request.window]


def _run_with_trend(request: AuditRequest, trend: str) -> str:
    """The audit's run; another one, which supersedes it, if it was concluded with other windows in its trend.

    A metric cannot be written anew: in one run the numbers of two trends would be mixed.
    """
    from mlflow import MlflowClient

    client = MlflowClient()
    run_id = request.run_id
    run = client.get_run(run_id)
    if t.VERDICT not in run.data.tags or run.data.tags.get(t.TREND, "") == trend:
        return run_id
    return copied_run(run_id, request.experiment, digest(["trend", request.key, trend]), {}, request.store)


def verdict_files(verdict: Verdict, config: AuditConfig) -> dict[str, Any]:
    """artifact -> text: the verdict and the settings it was made with."""
    return {
        VERDICT: verdict.to_json(),
        VIOLATIONS: verdict.violations_json(),
        CONFIG: json.dumps(config.to_dict(), indent=1),
    }


def comparison_files(
    verdict: Verdict,
    found: Comparison,
    culprits: Sequence[Culprit],
    history: Sequence[AuditEntry],
    config: AuditConfig,
    folder: Path,
) -> dict[str, Any]:
    """artifact -> text, or a file that was written to the folder: page, culprits, subgroups, arrays, profile."""
    files: dict[str, Any] = {**found.arrays.save(folder), CULPRITS: culprits_json(culprits)}
    if found.result.groups is not None:
        files[SUBGROUPS] = found.result.groups.to_json()
    page = render_audit(verdict, found, history, config, created_at=datetime.now(UTC).isoformat(timespec="seconds"))
    if page is not None:
        files[REPORT] = page
    if len(found.current):
        by_channel, by_time, by_cell = found.current.mean_shares()
        profile = {"by_channel": plain(by_channel), "by_time": plain(by_time), "by_cell": plain(by_cell)}
        names = {"channels": list(found.current.channel_names), "times": list(found.current.times)}
        files[PROFILE] = json.dumps(names | profile)
    return files


def _refresh_later(request: AuditRequest, entries: Sequence[AuditEntry]) -> None:
    """Audits of later windows whose trend should have had this window in it are concluded again, without a fit.

    So the numbers are those of the windows, in whatever order, or at whatever time, they were audited.
    """
    config, start = request.config, parse_window(request.window).start
    if start is None or request.blockers or config.reference == "rolling":
        return
    current = [entry for entry in entries if not entry.superseded and entry.series == request.series]
    for entry in current:
        before = [other for other in current if other.start < entry.start]
        chosen = trend_entries(entry.window, entry.reference_run_id, config, before)
        if entry.start <= start or trend_label(chosen) == entry.trend:
            continue
        kept = _kept_request(request, entry)
        if kept is None or kept[0].blockers or kept[0].reference_model != kept[0].model:
            continue
        try:
            result = _conclude(*kept)
            link_superseded(_entries(request), result.run_id)
        except AuditError as error:  # its shards were removed: the next audit of that window makes them again
            _logger.warning("dynamask: the trend of %s could not be renewed: %s", printable(entry.window), error)


def _folder(request: AuditRequest) -> Path:
    return request.root / "audits" / request.key


def _by_content(request: AuditRequest, content: str, window: str, reference: str) -> Path:
    name = f"{digest([request.series, window, content, reference])}.json"
    return request.root / "audits" / "requests" / name


def _keep_request(request: AuditRequest, uris: Sequence[str]) -> None:
    """In the store, not in MLflow: row numbers and paths are nobody else's business."""
    path = _by_content(request, request.content, request.window, request.reference_run_id)
    atomic_write(path, json.dumps({"request": request.to_dict(), "uris": list(uris)}))


def _kept_request(request: AuditRequest, entry: AuditEntry) -> tuple[AuditRequest, list[str]] | None:
    path = _by_content(request, entry.content, entry.window, entry.reference_run_id)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return AuditRequest.from_dict(stored["request"]), stored["uris"]
