"""The tags that audits leave on runs and on versions."""

from __future__ import annotations

KEY, KIND, MODEL, VERSION = "dynamask.audit_key", "dynamask.kind", "dynamask.model", "dynamask.version"
SITE, CONTENT, SLOT, SERIES = "dynamask.site", "dynamask.content", "dynamask.slot", "dynamask.series"
WINDOW, WINDOW_START = "dynamask.window", "dynamask.window_start"
VERDICT, AUDITED_AT, FINDING = "dynamask.verdict", "dynamask.audited_at", "dynamask.finding"
REFERENCE, REFERENCE_WINDOW = "dynamask.reference_run_id", "dynamask.reference_window"
SUPERSEDES, SUPERSEDED_BY = "dynamask.supersedes", "dynamask.superseded_by"
TREND = "dynamask.trend_windows"
CLAIMED = "dynamask.claimed"
ERROR = "dynamask.error"
# Of versions.
AUDITED_WINDOW, ALERT, FAILED = "dynamask.audited_window", "dynamask.alert", "dynamask.audit_failed"
# Of runs: who was notified.
ALERTED, NOTIFIED = "dynamask.alerted", "dynamask.notified"
LONGEST = 4900  # of a tag's value, on every backend
