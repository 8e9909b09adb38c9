"""Which windows have stays but no finished audit of them: what lost events, or data that changed, left open."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.history import audit_history
from dynamask_mlflow.audit.models import resolve_model
from dynamask_mlflow.audit.records import AuditSource
from dynamask_mlflow.audit.reference import find_reference, reference_record
from dynamask_mlflow.audit.run import identify
from dynamask_mlflow.audit.windows import Window, draw_stays, find_rows, parse_window, read_arrays

PERIODS = {"day": "D", "month": "M", "year": "Y"}


def pending_windows(
    source: AuditSource, *, period: str = "month", config: AuditConfig | None = None, now: datetime | None = None
) -> list[str]:
    """Windows to audit, oldest first.

    Those of a period that is over, with stays, beside the reference's own window, without an audit of exactly these
    stays with these settings against the present reference.

    Args:
        source: its window does not count. period: "day", "month" or "year". now: until when periods are over.

    >>> source = AuditSource(model="models:/icu-mortality@champion", data="icu")
    >>> pending_windows(source, config=AuditConfig(instances=50), now=datetime(2026, 1, 1))
    ['2025-12']
    """
    if period not in PERIODS:
        raise AuditError(f"Expected period to be one of {', '.join(PERIODS)}, but got {period!r}.")
    config, ref = config or AuditConfig(), resolve_model(source.model)
    data, site, split = source.data, source.site, source.split
    reference = find_reference(ref, site)
    normal = parse_window(reference_record(reference)["window"])
    entries = audit_history(source.experiment, ref.name, ref.version, site=site, superseded=False)
    done = {(e.series, e.window, e.content, e.reference_run_id) for e in entries}
    today = (now or datetime.now(UTC)).replace(tzinfo=None).isoformat(timespec="seconds")
    found = []
    for label in windows_with_stays(data, period, split):
        span = parse_window(label)
        if str(span.stop) > today or _overlap(span, normal):
            continue
        content = draw_stays(data, find_rows(data, span, split), config, span.label, config.instances).content
        identity = identify(ref, replace(source, window=span.label), content, config, reference)
        if (identity.series, span.label, content, reference) not in done:
            found.append(label)
    return found


def windows_with_stays(data: str, period: str, split: str | None = None) -> list[str]:
    """The periods in which stays were admitted, or into which their own labels fall, oldest first."""
    rows = find_rows(data, parse_window("all"), split)
    admitted, labels = read_arrays(data, ("admitted", "windows"), rows)
    timeless = np.isnat(admitted)
    found: set[str] = set(admitted[~timeless].astype(f"datetime64[{PERIODS[period]}]").astype(str).tolist())
    for label in np.unique(labels[timeless]).tolist():
        try:
            start = parse_window(label).start
        except AuditError:
            continue  # a label that is no date
        if start is not None:
            whole = str(np.datetime64(start).astype(f"datetime64[{PERIODS[period]}]"))
            found |= {whole} if parse_window(whole).holds(label) else set()
    return sorted(found)


def _overlap(first: Window, second: Window) -> bool:
    if second.start is None or first.start is None:
        return False
    return first.start < str(second.stop) and second.start < str(first.stop)


def reconcile(
    model: str,
    data: str,
    *,
    period: str = "month",
    config: AuditConfig | None = None,
    processes: int = 1,
    **where: Any,
) -> dict[str, str]:
    """Audit every pending window: window -> state, or what went wrong; one that fails does not keep the others back.

    Args:
        model, data, where: the fields of `AuditSource`: site, split, store and experiment by keyword.

    >>> reconcile("models:/icu-mortality@champion", "icu", config=AuditConfig(instances=100), split="later")
    {'2026-03': '...'}
    """
    from dynamask_mlflow.audit.run import run_audit

    found: dict[str, str] = {}
    for window in pending_windows(AuditSource(model=model, data=data, **where), period=period, config=config):
        try:
            found[window] = str(run_audit(model, data, window, config=config, processes=processes, **where).state)
        except AuditError as error:
            found[window] = f"error: {error}"
    return found
