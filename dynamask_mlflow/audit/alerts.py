"""Notices of a finding when it begins, gets worse, lasts and ends; tags on the runs keep each to once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamask_mlflow._json import stored_names, stored_object
from dynamask_mlflow._states import State
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.history import AuditEntry, Episode, audit_history, days_between, episodes, jaccard
from dynamask_mlflow.audit.identity import DEFAULT_SITE

REMINDER_DAYS = 90


@dataclass(frozen=True)
class Notice:
    """A notice to be sent. kind: "opened", "worse", "reminder", "ended" or "inconclusive"; episode: its name."""

    kind: str
    episode: str
    text: str

    @property
    def key(self) -> str:
        return f"{self.kind} {self.episode}"


def due_notices(
    verdict: Mapping[str, Any], experiment: str, alert_on: Sequence[str], reminder_days: int = REMINDER_DAYS
) -> list[Notice]:
    """What is new in a verdict, in the light of the audits of its series before and after it."""
    history = audit_history(experiment, verdict["model"], verdict["version"], superseded=False)
    return notices_of(history, str(verdict["run_id"]), describe_alert(verdict), alert_on, reminder_days)


def notices_of(
    history: Sequence[AuditEntry], run_id: str, line: str, alert_on: Sequence[str], reminder_days: int
) -> list[Notice]:
    """The same from a history; a run that is not in it, or was superseded, needs no notice."""
    entry = next((entry for entry in history if entry.run_id == run_id), None)
    if entry is None:
        return []
    series = [other for other in history if (other.series, other.site) == (entry.series, entry.site)]
    if entry.verdict == State.INCONCLUSIVE:
        return _inconclusive(series, entry, line) if entry.verdict in alert_on else []
    found: list[Notice] = []
    for episode in episodes(series):
        if episode.ended_by is not None and episode.ended_by.run_id == run_id and _notified_entries(episode):
            ended = Notice("ended", episode.name, f"ended: {_since(episode)} {line}")
            found += [] if ended.key in entry.alerted else [ended]
        if entry in episode.entries and entry.verdict in alert_on:
            found += _finding(episode, entry, line, reminder_days)
    return found


def _finding(episode: Episode, entry: AuditEntry, line: str, reminder_days: int) -> list[Notice]:
    earlier = _notified_entries(episode)
    if not earlier:
        return [Notice("opened", episode.name, line)]
    if entry.verdict.severity > max(other.verdict.severity for other in earlier):
        return [Notice("worse", episode.name, f"worse: {line}")]
    if min(days_between(other, entry) for other in earlier) >= reminder_days:
        return [Notice("reminder", episode.name, f"still, {_since(episode)} {line}")]
    return []


def _notified_entries(episode: Episode) -> list[AuditEntry]:
    kinds = ("opened", "worse", "reminder")
    return [entry for entry in episode.entries if any(notice.startswith(kinds) for notice in entry.alerted)]


def _inconclusive(series: Sequence[AuditEntry], entry: AuditEntry, line: str) -> list[Notice]:
    """Notified once for neighbouring windows that were inconclusive for the same reasons."""
    place = series.index(entry)
    for neighbours in (reversed(series[: place + 1]), series[place + 1 :]):
        for other in neighbours:
            if other.verdict != State.INCONCLUSIVE or jaccard(other.kinds, entry.kinds) < 1:
                break
            if any(notice.startswith("inconclusive") for notice in other.alerted):
                return []
    return [Notice("inconclusive", f"{entry.site} {entry.window}", line)]


def _since(episode: Episode) -> str:
    windows = len(episode.entries)
    return f"{episode.state} since {episode.entries[0].window} ({windows} window{'s' if windows > 1 else ''})."


def notified(run_id: str, notice: Notice) -> frozenset[str]:
    """Names of those who were notified of it, by an attempt that may have failed half-way."""
    from mlflow import MlflowClient

    stored = stored_object(MlflowClient().get_run(run_id).data.tags.get(t.NOTIFIED, ""))
    return frozenset(stored_names(stored, "by")) if stored.get("notice") == notice.key else frozenset()


def note_notified(run_id: str, notice: Notice, by: Iterable[str]) -> None:
    from mlflow import MlflowClient

    MlflowClient().set_tag(run_id, t.NOTIFIED, json.dumps({"notice": notice.key, "by": sorted(by)}))


def mark_alerted(run_id: str, notice: Notice) -> None:
    """All were notified."""
    from mlflow import MlflowClient

    client = MlflowClient()
    stored = stored_object(client.get_run(run_id).data.tags.get(t.ALERTED, ""))
    keys = sorted({*stored_names(stored, "notices"), notice.key})
    client.set_tag(run_id, t.ALERTED, json.dumps({"notices": keys}))


def describe_alert(verdict: Mapping[str, Any]) -> str:
    """One line: state, model, site, window, the first reason."""
    reason = next(iter(verdict["reasons"]), "")
    site = "" if verdict.get("site", DEFAULT_SITE) == DEFAULT_SITE else f", {verdict['site']}"
    return (
        f"{verdict['state']}: {verdict['model']} version {verdict['version']}{site}, {verdict['window']}. {reason}"
    ).strip()
