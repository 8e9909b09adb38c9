"""Episodes: findings of one site, window after window, that are about the same thing. Pure functions of the history.

A finding opens an episode. The next window continues it if its finding is similar; one that is ok, or is about
something else, ends it; one that is inconclusive says nothing about it, and leaves it open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynamask_mlflow._states import State
from dynamask_mlflow.audit.history import AuditEntry

SIMILAR = 0.5
FINDINGS = (State.DRIFT, State.WARNING)


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
