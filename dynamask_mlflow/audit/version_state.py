"""The state of a version: computed from all its audits, whoever ran last, and written where people look."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dynamask_mlflow._json import stored_object
from dynamask_mlflow._printable import shortened
from dynamask_mlflow._states import State, worst
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.history import AuditEntry, Episode, audit_history, episodes, settings_labels
from dynamask_mlflow.audit.identity import DEFAULT_SITE

_BEGIN, _END = "<!-- dynamask audit -->", "<!-- /dynamask audit -->"
_TRIES = 3
_DESCRIPTION = 5000  # the longest that the registry's databases hold; PostgreSQL refuses more
# What the section may say, the most first: rows of each table, letters of each sentence, sites.
_SIZES = ((6, 400, None), (3, 200, None), (1, 120, None), (0, 120, None), (0, 60, 20), (0, 0, 20), (0, 0, 0))
_FAILURE = ("window", "start", "error", "at")
Failures = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class SiteState:
    """One site: its newest window, what was found there, and what is still open.

    Attributes:
        entries: its current audits, oldest first. open: episodes that no audit has ended.
        failure: of a later window than the newest audit: why it could not be audited.
    """

    site: str
    state: State
    window: str
    entries: tuple[AuditEntry, ...]
    open: tuple[Episode, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class VersionState:
    """Of all sites the most severe state."""

    state: State
    sites: tuple[SiteState, ...]

    @property
    def alert(self) -> str:
        """One line for each open episode and each audit that could not run; empty if there is none."""
        lines = []
        for site in self.sites:
            lines += [f"{episode.state}: {describe_episode(episode)}" for episode in site.open]
            if site.failure:
                lines.append(f"not audited: {site.failure}")
        return "\n".join(lines)


def describe_episode(episode: Episode) -> str:
    """ward-3 since 2026-03: the first reason."""
    entries = episode.entries
    place = "" if entries[0].site == DEFAULT_SITE else f"{entries[0].site} "
    since = entries[0].window if len(entries) == 1 else f"since {entries[0].window}, last in {entries[-1].window}"
    return f"{place}{since}: {entries[-1].reason}"


def state_of_version(entries: Sequence[AuditEntry], failures: Failures | None = None) -> VersionState | None:
    """From the audits of one version; None if there is neither an audit nor a failure.

    Each site counts with its newest window: the most severe of the audits of that window, and of the episodes that are
    open in the series to which they belong.

    Example:
        >>> state_of_version([]) is None
        True
    """
    failures = failures or {}
    current = [entry for entry in entries if not entry.superseded]
    names = sorted({entry.site for entry in current} | set(failures))
    sites = tuple(_site(name, [e for e in current if e.site == name], failures.get(name, {})) for name in names)
    return VersionState(worst([site.state for site in sites]), sites) if sites else None


def _site(name: str, entries: list[AuditEntry], failure: Mapping[str, str]) -> SiteState:
    entries = sorted(entries, key=lambda entry: (entry.start, entry.audited_at))
    newest = [entry for entry in entries if entry.start == entries[-1].start]
    states = [entry.verdict for entry in newest]
    still_open = []
    for series in dict.fromkeys(entry.series for entry in newest):
        found = episodes([entry for entry in entries if entry.series == series])
        still_open += [episode for episode in found if episode.open]
    states += [episode.state for episode in still_open]
    last = (newest[-1].start, newest[-1].audited_at) if newest else ("", "")
    later = bool(failure) and (failure.get("start", ""), failure.get("at", "")) > last
    if later:
        states.append(State.INCONCLUSIVE)
    return SiteState(
        site=name,
        state=worst(states),
        window=newest[0].window if newest else failure.get("window", ""),
        entries=tuple(entries),
        open=tuple(still_open),
        failure=f"{failure['window']}: {failure['error']}" if later else "",
    )


def publish_version_state(name: str, version: str, experiment: str) -> VersionState | None:
    """Compute the state and write it: tags of the version, and the audit section of its description.

    Another process may conclude an audit meanwhile: what was written is compared with what is so, and written again.

    >>> state = publish_version_state("icu-mortality", "3", "dynamask-audits")
    >>> state is None or state.state in ("ok", "warning", "drift", "inconclusive", "error")
    True
    """
    from mlflow import MlflowClient

    client = MlflowClient()
    state, before = None, None
    for _ in range(_TRIES):
        found = client.get_model_version(name, version)
        state = state_of_version(audit_history(experiment, name, version), stored_failures(found.tags))
        if state is None or state == before:
            return state
        wanted = _version_tags(state)
        failing = {site.site for site in state.sites if site.failure}
        kept = {site: failure for site, failure in stored_failures(found.tags).items() if site in failing}
        if kept:
            wanted[t.FAILED] = json.dumps(kept)
        for tag, value in wanted.items():
            if found.tags.get(tag) != value:
                client.set_model_version_tag(name, version, tag, value)
        for tag in (t.ALERT, t.FAILED):
            if tag in found.tags and tag not in wanted:
                client.delete_model_version_tag(name, version, tag)
        description = described(found.description or "", state)
        if description != (found.description or ""):
            client.update_model_version(name, version, description)
        before = state
    return state


def _version_tags(state: VersionState) -> dict[str, str]:
    audits = [entry for site in state.sites for entry in site.entries]
    found = {t.VERDICT: str(state.state)}
    if audits:
        newest = max(audits, key=lambda entry: entry.start)
        found |= {t.AUDITED_WINDOW: newest.window, t.AUDITED_AT: max(entry.audited_at for entry in audits)}
    found |= {f"{t.VERDICT}.{site.site}": str(site.state) for site in state.sites}
    if state.alert:
        found[t.ALERT] = state.alert[: t.LONGEST]
    return found


def stored_failures(tags: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """site -> window, start, error of the audit that could not run."""
    stored = stored_object(tags.get(t.FAILED, ""))
    return {site: failure for site, failure in stored.items() if _is_failure(failure)}


def _is_failure(stored: Any) -> bool:
    return isinstance(stored, dict) and all(isinstance(stored.get(key), str) for key in _FAILURE)


def _as_tag(failures: Mapping[str, Mapping[str, str]]) -> str:
    """The failures as a tag can hold them: of many sites the errors are cut, and at last the oldest left out."""
    kept = dict(sorted(failures.items(), key=lambda item: item[1]["at"]))
    for length in (300, 100, 30, 0):
        text = json.dumps({site: {**failure, "error": failure["error"][:length]} for site, failure in kept.items()})
        if len(text) <= t.LONGEST:
            return text
    kept.pop(next(iter(kept)))
    return _as_tag(kept)


def note_failure(name: str, version: str, experiment: str, *, site: str, window: str, start: str, error: str) -> None:
    """An audit could not run: said on the version, until an audit of that window, or of a later one, did."""
    from mlflow import MlflowClient

    client = MlflowClient()
    stored = stored_failures(client.get_model_version(name, version).tags)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    stored[site] = {"window": window, "start": start, "error": error[:300], "at": now}
    client.set_model_version_tag(name, version, t.FAILED, _as_tag(stored))
    publish_version_state(name, version, experiment)


def with_section(description: str, text: str) -> str:
    """The description with its audit section replaced, or added at the end; the rest stays as people wrote it."""
    whole = f"{_BEGIN}\n{text}\n{_END}"
    pattern = re.compile(re.escape(_BEGIN) + ".*?" + re.escape(_END), re.DOTALL)
    if pattern.search(description):
        return pattern.sub(lambda _: whole, description, count=1)
    return f"{description.rstrip()}\n\n{whole}".lstrip()


def described(description: str, state: VersionState) -> str:
    """The description with all of the section that fits, the most severe sites first; without it if nothing fits.

    >>> described("Of ward 3.", VersionState(State.OK, ())).splitlines()[0]
    'Of ward 3.'
    """
    for size in _SIZES:
        text = with_section(description, section(state, *size))
        if len(text) <= _DESCRIPTION:
            return text
    rest = with_section(description, "")
    return description if len(rest) > _DESCRIPTION else rest


def section(state: VersionState, rows: int = 6, longest: int = 400, most: int | None = None) -> str:
    """What the version's description says: the state, what is open, and the last windows of each site.

    Args:
        rows: of each table. longest: letters of each sentence. most: sites; None for all.
    """
    lines = [f"### Explanation audit: {state.state}", ""]
    sites = sorted(state.sites, key=lambda site: -site.state.severity) if most is not None else list(state.sites)
    for site in sites[:most]:
        title = "" if len(state.sites) == 1 and site.site == DEFAULT_SITE else f"**{site.site}**: "
        newest = [entry for entry in site.entries if entry.start == site.entries[-1].start]
        last = max(newest, key=lambda entry: entry.verdict.severity, default=None)
        lead = f"{site.state}, window {site.window}"
        if last is not None and last.verdict != site.state:  # of an episode that is open, or of an audit that failed
            lead = f"{site.state}; the newest window, {site.window}, is {last.verdict}"
        reason = f" {shortened(last.reason, longest)}" if last is not None and longest else ""
        lines.append(f"{title}{lead}.{reason}")
        if longest:
            lines += [
                f"- Open {episode.state}, {shortened(describe_episode(episode), longest)}" for episode in site.open
            ]
            lines += [f"- Could not be audited: {shortened(site.failure, longest)}"] if site.failure else []
        lines += ["", *_table(site.entries[-rows:] if rows else (), settings_labels(site.entries)), ""]
    if len(sites[:most]) < len(sites):
        lines.append(f"{len(sites) - len(sites[:most])} more sites: see the tags dynamask.verdict.*")
    return "\n".join(lines).rstrip()


def _table(entries: Sequence[AuditEntry], labels: Mapping[str, str]) -> list[str]:
    if not entries:
        return []
    rows = ["| window | verdict | between channels | in time | predicted |", "| --- | --- | --- | --- | --- |"]
    for entry in entries:
        shown = [_cell(entry.metrics, key, 100.0, " %", 1) for key in ("moved_channels", "moved_hours")]
        shown.append(_cell(entry.metrics, "predicted", 1.0, "", 3))
        window = f"{entry.window} ({labels[entry.run_id]})" if labels[entry.run_id] else entry.window
        rows.append(f"| {window} | {entry.verdict} | {' | '.join(shown)} |")
    return rows


def _cell(metrics: Mapping[str, Any], key: str, scale: float, unit: str, digits: int) -> str:
    return f"{scale * metrics[key]:.{digits}f}{unit}" if key in metrics else "-"
