"""The audits of the past, from their runs: which are current, and which episodes they form.

A finding opens an episode of a site. The next window continues it if its finding is similar; one that is ok, or is
about something else, ends it; one that is inconclusive says nothing about it, and leaves it open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from dynamask_mlflow._json import stored_names, stored_object
from dynamask_mlflow._states import State
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.identity import DEFAULT_SITE
from dynamask_mlflow.tracking.mlflow_client import tag_equals

if TYPE_CHECKING:
    from mlflow.entities import Run

PREFIX = "dynamask/audit"
SIMILAR = 0.5
FINDINGS = (State.DRIFT, State.WARNING)


@dataclass(frozen=True)
class AuditEntry:
    """One audit of the past.

    Attributes:
        start: of the window. series, slot: of its identity. content: a digest of its stays.
        channels, kinds: what it found, and in which channels; inputs: those whose inputs warned.
        trend: the windows that were tested together with it. audited_at: when it was last concluded.
        superseded: another audit of the same window, with other data or another reference, came later.
        alerted: notices that were sent of it, and when it ended.
    """

    run_id: str
    window: str
    start: str
    version: str
    verdict: State
    reference_run_id: str
    metrics: Mapping[str, float]
    site: str = DEFAULT_SITE
    series: str = ""
    slot: str = ""
    content: str = ""
    channels: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    reason: str = ""
    trend: str = ""
    audited_at: str = ""
    superseded: bool = False
    alerted: tuple[str, ...] = field(default=())


def audit_history(
    experiment: str, name: str, version: str | None = None, *, site: str | None = None, superseded: bool = True
) -> list[AuditEntry]:
    """All complete audits of a model, of one version, of one site, in the order of their windows.

    >>> audit_history("dynamask-audits", "a-model-without-audits")
    []
    """
    from mlflow import MlflowClient

    client = MlflowClient()
    home = client.get_experiment_by_name(experiment)
    if home is None:
        return []
    wanted = [tag_equals(t.KIND, "audit"), tag_equals(t.MODEL, name)]
    if version is not None:
        wanted.append(tag_equals(t.VERSION, version))
    found: list[Run] = []
    page = client.search_runs([home.experiment_id], " and ".join(wanted))
    while True:
        found += page
        if not page.token:
            break
        page = client.search_runs([home.experiment_id], " and ".join(wanted), page_token=page.token)
    concluded = [run for run in found if run.data.tags.get(t.VERDICT) in {*State} and run.data.tags[t.MODEL] == name]
    entries = _marked([_entry(run) for run in concluded])
    return [
        entry
        for entry in sorted(entries, key=lambda entry: (entry.start, entry.version, entry.site, entry.audited_at))
        if (site is None or entry.site == site) and (superseded or not entry.superseded)
    ]


def _marked(entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """Of the audits of one slot the one that was concluded last is current; the tags only say so to people."""
    newest: dict[str, tuple[str, str]] = {}
    for entry in entries:
        rank = (entry.audited_at, entry.run_id)
        newest[_slot(entry)] = max(newest.get(_slot(entry), ("", "")), rank)
    return [replace(e, superseded=(e.audited_at, e.run_id) != newest[_slot(e)]) for e in entries]


def settings_labels(entries: Sequence[AuditEntry]) -> dict[str, str]:
    """run -> "settings 2": which of the series of its version and site it belongs to; "" where there is only one.

    Audits with other settings, another split or another source are not compared with each other, so one window may have
    several current ones.
    """
    series: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        known = series.setdefault((entry.version, entry.site), [])
        known += [entry.series] if entry.series not in known else []
    found = {}
    for entry in entries:
        known = series[entry.version, entry.site]
        found[entry.run_id] = f"settings {known.index(entry.series) + 1}" if len(known) > 1 else ""
    return found


def _slot(entry: AuditEntry) -> str:
    return entry.slot or entry.run_id


def _entry(run: Run) -> AuditEntry:
    tags = run.data.tags
    finding = stored_object(tags.get(t.FINDING, ""))
    return AuditEntry(
        run_id=run.info.run_id,
        window=tags.get(t.WINDOW, ""),
        start=tags.get(t.WINDOW_START, ""),
        version=tags.get(t.VERSION, ""),
        verdict=State(tags[t.VERDICT]),
        reference_run_id=tags.get(t.REFERENCE, ""),
        metrics={
            key.removeprefix(f"{PREFIX}/"): value
            for key, value in run.data.metrics.items()
            if key.startswith(f"{PREFIX}/")
        },
        site=tags.get(t.SITE, DEFAULT_SITE),
        series=tags.get(t.SERIES, ""),
        slot=tags.get(t.SLOT, ""),
        content=tags.get(t.CONTENT, ""),
        channels=stored_names(finding, "channels"),
        kinds=stored_names(finding, "kinds"),
        inputs=stored_names(finding, "inputs"),
        reason=str(finding.get("reason", "")),
        trend=tags.get(t.TREND, ""),
        audited_at=tags.get(t.AUDITED_AT, ""),
        alerted=stored_names(stored_object(tags.get(t.ALERTED, "")), "notices"),
    )


@dataclass(frozen=True)
class Episode:
    """Attributes:
    entries: the audits with the finding, oldest first. ended_by: the audit that ended it; None while it is open.
    """

    entries: tuple[AuditEntry, ...]
    ended_by: AuditEntry | None = None

    @property
    def name(self) -> str:
        """Site and first window; the same whoever asks."""
        return f"{self.entries[0].site} {self.entries[0].window}"

    @property
    def open(self) -> bool:
        return self.ended_by is None

    @property
    def state(self) -> State:
        return self.entries[-1].verdict

    @property
    def channels(self) -> tuple[str, ...]:
        return self.entries[-1].channels


def episodes(entries: Sequence[AuditEntry]) -> list[Episode]:
    """The episodes of one site, oldest first, from its current audits in the order of their windows."""
    found: list[Episode] = []
    running: list[AuditEntry] = []
    for entry in entries:
        if entry.verdict == State.INCONCLUSIVE:
            continue
        if running and not (entry.verdict in FINDINGS and similar(running[-1], entry)):
            found.append(Episode(tuple(running), entry))
            running = []
        if entry.verdict in FINDINGS:
            running.append(entry)
    return [*found, Episode(tuple(running))] if running else found


def similar(first: AuditEntry, second: AuditEntry) -> bool:
    """Whether two findings share at least half of all their channels (Jaccard), or kinds where no channel is named.

    Where inputs warned in both, those are compared: attention that one channel loses spreads over others, which are no
    sign of the same fault.
    """
    if first.inputs and second.inputs:
        return jaccard(first.inputs, second.inputs) >= SIMILAR
    if first.channels and second.channels:
        return jaccard(first.channels, second.channels) >= SIMILAR
    return jaccard(first.kinds, second.kinds) >= SIMILAR


def jaccard(first: Sequence[str], second: Sequence[str]) -> float:
    """Shared names as a share of all names; 1 if there are none at all."""
    a, b = set(first), set(second)
    return len(a & b) / len(a | b) if a | b else 1.0


def days_between(first: AuditEntry, second: AuditEntry) -> float:
    """From the beginning of one window to that of another: the calendar of the data, not of whoever runs audits."""
    if not first.start or not second.start:
        return 0.0
    gap = np.datetime64(second.start, "s") - np.datetime64(first.start, "s")
    return abs(float(gap / np.timedelta64(1, "D")))
