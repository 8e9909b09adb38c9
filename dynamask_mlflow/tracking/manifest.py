"""What a spool holds and where it belongs: `manifest.json`, written last, checked in full before it is used."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow._settings import ConfigError, Many, Settings
from dynamask_mlflow.tracking.errors import SpoolError
from dynamask_mlflow.tracking.metric_log import Point

MANIFEST = "manifest.json"
ARTIFACTS = "artifacts"
SCHEMA_VERSION = 1
STATUSES = (None, "FINISHED", "FAILED")
_LARGEST = 1 << 28
_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHA = re.compile(r"[0-9a-f]{64}")


def _as_points(stored: Any) -> Any:
    """Points as JSON holds them; MLflow stores NaN and infinity, too."""
    return tuple(_point(each) for each in stored) if isinstance(stored, list) else stored


def _point(stored: Any) -> Any:
    if not isinstance(stored, dict):
        return stored
    point = Point(**stored)
    if type(point.key) is not str or type(point.value) not in (int, float) or type(point.step) is not int:
        raise ConfigError("Expected points of a key, a number and a step.")
    return point


class Destination(Settings):
    """Where the results in a spool belong."""

    run_id: str
    """Of the run."""
    tracking_uri: str
    """Of the server, kept without credentials."""
    model_id: str | None = None
    """The logged model to which metrics are linked."""
    link_model: bool = False
    """Whether the run must name the logged model, too."""
    dataset_name: str
    """The dataset to which metrics are linked."""
    dataset_digest: str
    """Its digest."""
    timestamp: int = Field(default_factory=lambda: int(time.time() * 1000))
    """Of the metrics, in milliseconds; by default now."""
    status: str | None = None
    """With which a later upload ends the run; None leaves it as it is."""


class Manifest(Destination):
    """Where the results in a spool belong, and what they are."""

    points: Annotated[tuple[Point, ...], BeforeValidator(_as_points)]
    """The metrics."""
    tables: Many[str]
    """Artifacts that MLflow shall show as tables."""
    files: Mapping[str, str]
    """Artifact path -> SHA-256, in the order of upload; the last one vouches for the others."""
    schema_version: int = SCHEMA_VERSION
    """Of this form."""


def checksum(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def write_manifest(
    spool: Path, destination: Destination, *, points: Sequence[Point], files: Sequence[str], tables: Sequence[str] = ()
) -> Manifest:
    """Write the manifest of a spool whose artifacts are all there."""
    manifest = Manifest(
        **{**destination.to_dict(), "tracking_uri": without_secrets(destination.tracking_uri)},
        points=tuple(points),
        tables=tuple(tables),
        files={name: checksum(spool / ARTIFACTS / name) for name in files},
    )
    stored = {**manifest.to_dict(), "points": [asdict(point) for point in manifest.points]}
    atomic_write(spool / MANIFEST, json.dumps(stored, indent=1))
    return manifest


def read_manifest(spool: Path, verify: bool = True) -> Manifest:
    """Read a spool's manifest; `verify` also checks that every file is there as it was written, and no link.

    Raises:
        SpoolError: for whatever is not as `write_manifest` wrote it.
    """
    path = spool / MANIFEST
    try:
        if path.is_symlink() or spool.is_symlink():
            raise SpoolError(f"Expected a spool of plain files, but {path} is a link.")
        if path.stat().st_size > _LARGEST:
            raise SpoolError(f"Expected a manifest of at most {_LARGEST:,} bytes, but {path} is larger.")
        stored = json.loads(path.read_text(encoding="utf-8"))
    except SpoolError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise SpoolError(f"Expected a complete spool in {spool}, but its manifest cannot be read: {error}.") from error
    manifest = _parsed(stored, path)
    if verify:
        _verify(spool, manifest)
    return manifest


def _parsed(stored: Any, path: Path) -> Manifest:
    if not isinstance(stored, dict):
        raise SpoolError(f"Expected a JSON object in {path}, but got {type(stored).__name__}.")
    if stored.get("schema_version") != SCHEMA_VERSION:
        got = repr(stored.get("schema_version"))[:40]
        raise SpoolError(f"Expected a spool of schema version {SCHEMA_VERSION}, but {path} has {got}.")
    known = set(Manifest.model_fields)
    wrong = sorted(set(stored) - known) or sorted(known - set(stored) - {"status"})
    if wrong:
        raise SpoolError(f"Expected the keys {sorted(known)} in {path}, but {wrong[0]!r} is unknown or missing.")
    try:
        manifest = Manifest.from_mapping(stored)
    except (ConfigError, TypeError) as error:
        raise SpoolError(f"Expected a manifest as it was written in {path}, but it is malformed: {error}") from error
    if not _RUN_ID.fullmatch(manifest.run_id) or manifest.status not in STATUSES:
        raise SpoolError(f"Expected the id of a run and one of the statuses {STATUSES} in {path}, but got others.")
    for name, sha in manifest.files.items():
        parts = PurePosixPath(name).parts if isinstance(name, str) else ()
        inside = bool(parts) and not PurePosixPath(name).is_absolute() and ".." not in parts and "\\" not in name
        if not inside or "\0" in name or not isinstance(sha, str) or not _SHA.fullmatch(sha):
            raise SpoolError(f"Expected files inside the spool with their SHA-256 in {path}, but got {name!r}.")
    return manifest


def _verify(spool: Path, manifest: Manifest) -> None:
    root = spool / ARTIFACTS
    if any(path.is_symlink() for path in (root, *root.rglob("*"))):
        raise SpoolError(f"Expected a spool of plain files, but {spool} holds links.")
    for name, expected in manifest.files.items():
        path = root / name
        if not path.is_file() or checksum(path) != expected:
            raise SpoolError(f"Expected {path} as it was written, but it is missing or changed.")
