"""The evidence of a year in one file: plan, references, verdicts with their arrays, episodes, decisions, hashes."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from dynamask_mlflow._files import atomic_file
from dynamask_mlflow._json import plain
from dynamask_mlflow._model_uri import registered_name
from dynamask_mlflow._version import __version__
from dynamask_mlflow.audit.artifacts import (
    ANCHORS,
    CONFIG,
    MADE_FROM,
    MEASURED,
    OTHERS,
    REFERENCE,
    REFERENCE_RECORD,
    SUBGROUPS,
    VERDICT,
)
from dynamask_mlflow.audit.comparison import MadeFrom
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.gate import GATE, GATE_REASONS
from dynamask_mlflow.audit.history import AuditEntry, audit_history, episodes, settings_labels
from dynamask_mlflow.audit.identity import EXPERIMENT
from dynamask_mlflow.audit.runs import download

FORMAT = 1
MANIFEST, INDEX, PLAN, AUDITS, EPISODES, DECISIONS = (
    *("manifest.json", "index.html", "plan.json", "audits.json", "episodes.json", "decisions.json"),
)
SEAL = 64  # hexadecimal digits at the end of the file: the SHA-256 of everything before them
_WHEN = (1980, 1, 1, 0, 0, 0)  # of every member, so that the same evidence gives the same file


@dataclass(frozen=True)
class BundledAudit:
    """One audit in the bundle: what it is of, and what it said."""

    run_id: str
    version: str
    site: str
    window: str
    start: str
    state: str
    reason: str
    reference_run_id: str
    audited_at: str
    superseded: bool
    recomputable: bool
    settings: str = ""  # which of several, where windows of a site were audited with other settings, too

    @property
    def name(self) -> str:
        """Version, site and window, and the settings where there are several."""
        return ", ".join(filter(None, (f"version {self.version}", self.site, self.window, self.settings)))


@dataclass(frozen=True)
class Bundle:
    """What a bundle holds, before it is written. files: name -> bytes."""

    model: str
    year: str
    audits: tuple[BundledAudit, ...]
    files: Mapping[str, bytes]


def write_evidence(model: str, year: str, out: str | Path, experiment: str = EXPERIMENT) -> str:
    """Write the bundle of a registered model's audits of a year; returns the SHA-256 with which it is sealed.

    >>> from dynamask_mlflow.audit import AuditConfig, run_audit
    >>> config = AuditConfig(instances=100, reference_instances=100, anchors=5)
    >>> verdict = run_audit("models:/icu-mortality@champion", "icu", "2026-03", config=config)
    >>> len(write_evidence("icu-mortality", "2026", "evidence.zip"))
    64
    """
    bundle = collect(model, year, experiment)
    data = seal(bundle)
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        file.write(data)
    return data[-SEAL:].decode()


def collect(model: str, year: str, experiment: str = EXPERIMENT) -> Bundle:
    """Everything from MLflow: only what was logged, nothing from a store."""
    from dynamask_mlflow.audit.bundle_page import render_bundle

    name = registered_name(model)
    entries = [entry for entry in audit_history(experiment, name) if entry.start.startswith(str(year))]
    if not entries:
        raise AuditError(f"Expected audits of {name!r} in {year}, but there are none in the experiment {experiment!r}.")
    files: dict[str, bytes] = {}
    audits, labels = [], settings_labels(entries)
    for entry in entries:
        found = _run_files(entry.run_id, (VERDICT, CONFIG, SUBGROUPS, MADE_FROM, MEASURED, *OTHERS.values()))
        files |= found
        audits.append(_bundled(entry, f"{_place(entry.run_id)}/{MADE_FROM}" in found, labels[entry.run_id]))
        if audits[-1].recomputable:
            files |= _sources(found[f"{_place(entry.run_id)}/{MADE_FROM}"], files)
        else:
            files |= _run_files(entry.reference_run_id, (REFERENCE_RECORD,))
    records = {
        AUDITS: [asdict(audit) for audit in audits],
        PLAN: _plan(files, audits),
        EPISODES: _episodes(entries),
        DECISIONS: _decisions(name, {audit.version for audit in audits}),
    }
    files |= {file: json.dumps(record, indent=1, ensure_ascii=False).encode() for file, record in records.items()}
    bundle = Bundle(name, str(year), tuple(audits), files)
    return Bundle(name, str(year), tuple(audits), {**files, INDEX: render_bundle(bundle).encode()})


def seal(bundle: Bundle) -> bytes:
    """The file: a zip whose last bytes are the SHA-256 of all before them. The same evidence gives the same bytes."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(bundle.files.items())}
    manifest = {
        "format": FORMAT,
        "model": bundle.model,
        "year": bundle.year,
        "made_by": f"dynamask_mlflow {__version__}",
        "files": hashes,
    }
    members = {INDEX: bundle.files[INDEX], MANIFEST: json.dumps(manifest, indent=1).encode(), **bundle.files}
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _WHEN)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
        archive.comment = b"0" * SEAL
    body = buffer.getvalue()[:-SEAL]
    return body + hashlib.sha256(body).hexdigest().encode()


def _bundled(entry: AuditEntry, recomputable: bool, settings: str) -> BundledAudit:
    return BundledAudit(
        run_id=entry.run_id,
        version=entry.version,
        site=entry.site,
        window=entry.window,
        start=entry.start,
        state=str(entry.verdict),
        reason=entry.reason,
        reference_run_id=entry.reference_run_id,
        audited_at=entry.audited_at,
        superseded=entry.superseded,
        recomputable=recomputable,
        settings=settings,
    )


def _sources(made_from: bytes, there: Mapping[str, bytes]) -> dict[str, bytes]:
    """What the verdict of an audit was computed from, beside its own arrays: reference, anchors, earlier windows."""
    record = MadeFrom.from_json(made_from.decode())
    wanted = [(record.reference_run_id, (REFERENCE, REFERENCE_RECORD, *((ANCHORS,) if record.parts else ())))]
    if record.compared_with not in (record.reference_run_id, ""):
        wanted.append((record.compared_with, (MEASURED,)))
    wanted += [(run, (MEASURED,)) for run in record.earlier]
    found: dict[str, bytes] = {}
    for run_id, names in wanted:
        found |= _run_files(run_id, [name for name in names if f"{_place(run_id)}/{name}" not in there])
    return found


def _run_files(run_id: str, names: Iterable[str]) -> dict[str, bytes]:
    """Those of a run's files that are there."""
    from mlflow import MlflowClient

    names = list(names)
    if not names:
        return {}
    there = {item.path for item in MlflowClient().list_artifacts(run_id, "dynamask")}
    return {f"{_place(run_id)}/{name}": download(run_id, name).read_bytes() for name in names if name in there}


def _place(run_id: str) -> str:
    return f"runs/{run_id}"


def _plan(files: Mapping[str, bytes], audits: Sequence[BundledAudit]) -> list[dict[str, Any]]:
    """Each configuration that was used, and for which audits."""
    plans: dict[str, dict[str, Any]] = {}
    for audit in audits:
        content = files.get(f"{_place(audit.run_id)}/{CONFIG}", b"{}")
        plan = plans.setdefault(content.decode(), {"settings": json.loads(content), "audits": []})
        plan["audits"].append(audit.name)
    return list(plans.values())


def _episodes(entries: Sequence[AuditEntry]) -> list[dict[str, Any]]:
    found = []
    current = [entry for entry in entries if not entry.superseded]
    labels = settings_labels(entries)
    for series in dict.fromkeys(entry.series for entry in current):
        for episode in episodes([entry for entry in current if entry.series == series]):
            found.append(
                {
                    "name": episode.name,
                    "site": episode.entries[0].site,
                    "version": episode.entries[0].version,
                    "settings": labels[episode.entries[0].run_id],
                    "state": str(episode.state),
                    "windows": [entry.window for entry in episode.entries],
                    "ended_by": episode.ended_by.window if episode.ended_by else None,
                    "notices": sorted({notice for entry in episode.entries for notice in entry.alerted}),
                    "reason": episode.entries[-1].reason,
                }
            )
    return found


def _decisions(name: str, versions: set[str]) -> list[dict[str, Any]]:
    """What gates said of the versions, and which aliases they have."""
    from mlflow import MlflowClient

    from dynamask_mlflow.tracking.mlflow_client import equals

    found = []
    client = MlflowClient()
    # A search returns versions without their aliases.
    aliases = {alias: str(version) for alias, version in client.get_registered_model(name).aliases.items()}
    for version in sorted(client.search_model_versions(equals("name", name)), key=lambda v: int(v.version)):
        if version.name != name or (version.version not in versions and GATE not in version.tags):
            continue
        found.append(
            {
                "version": str(version.version),
                "aliases": sorted(alias for alias, of in aliases.items() if of == str(version.version)),
                "gate": version.tags.get(GATE, "no gate was run"),
                "reasons": version.tags.get(GATE_REASONS, "").splitlines(),
            }
        )
    return found


def metrics_rows(verdict: Mapping[str, Any], titles: Mapping[str, str]) -> list[tuple[str, str]]:
    """The numbers of a verdict in words."""
    metrics = verdict.get("metrics", {})
    return [(words, f"{plain(metrics[name]):.4g}") for name, words in titles.items() if metrics.get(name) is not None]
