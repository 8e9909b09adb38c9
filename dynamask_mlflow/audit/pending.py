"""Which windows have stays but no finished audit of them: what lost events, or data that changed, left open."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.history import audit_history
from dynamask_mlflow.audit.identity import DEFAULT_SITE, content_digest
from dynamask_mlflow.audit.models import resolve_model
from dynamask_mlflow.audit.reference import EXPERIMENT, pinned_reference, previous_reference, reference_record
from dynamask_mlflow.audit.run import identify
from dynamask_mlflow.audit.windows import Window, draw, find_rows, parse_window, read_arrays

PERIODS = {"day": "D", "month": "M", "year": "Y"}


def pending_windows(
    model: str,
    data: str,
    *,
    site: str = DEFAULT_SITE,
    split: str | None = None,
    period: str = "month",
    config: AuditConfig | None = None,
    experiment: str = EXPERIMENT,
    now: datetime | None = None,
) -> list[str]:
    """Windows to audit, oldest first.

    Those of a period that is over, with stays, beside the reference's own window, without an audit of exactly these
    stays with these settings against the present reference.
    """
    if period not in PERIODS:
        raise AuditError(f"Expected period to be one of {', '.join(PERIODS)}, but got {period!r}.")
    config, ref = config or AuditConfig(), resolve_model(model)
    reference = pinned_reference(ref, site) or previous_reference(ref, site)
    if reference is None:
        raise AuditError(
            f"Expected a reference for {ref.name} version {ref.version} at the site {site}, but there is none."
        )
    normal = parse_window(reference_record(reference)["window"])
    entries = audit_history(experiment, ref.name, ref.version, site=site, superseded=False)
    done = {(e.series, e.window, e.content, e.reference_run_id) for e in entries}
    today = (now or datetime.now(UTC)).replace(tzinfo=None).isoformat(timespec="seconds")
    found = []
    for label in windows_with_stays(data, period, split):
        span = parse_window(label)
        if str(span.stop) > today or _overlap(span, normal):
            continue
        population = find_rows(data, span, split)
        rows = draw(population, config.instances, config.seed, span.label)
        content = content_digest(data, rows, len(population))
        identity = identify(ref, site, span.label, split, content, config, reference)
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


def reconcile(model: str, data: str, *, period: str = "month", **options: Any) -> dict[str, str]:
    """Audit every pending window: window -> state, or what went wrong; one that fails does not keep the others back."""
    from dynamask_mlflow.audit.run import run_audit

    what = {name: options[name] for name in ("site", "split", "config", "experiment") if name in options}
    found: dict[str, str] = {}
    for window in pending_windows(model, data, period=period, **what):
        try:
            found[window] = str(run_audit(model, data, window, **options).state)
        except AuditError as error:
            found[window] = f"error: {error}"
    return found
