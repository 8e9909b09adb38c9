"""What a spool holds and where it belongs: `manifest.json`, written last, checked in full before it is used."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow._validation import ConfigError, check_types
from dynamask_mlflow.tracking.errors import SpoolError
from dynamask_mlflow.tracking.metric_log import Point

MANIFEST = "manifest.json"
ARTIFACTS = "artifacts"
SCHEMA_VERSION = 1
STATUSES = (None, "FINISHED", "FAILED")
_LARGEST = 1 << 28
_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHA = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Where the results in a spool belong.

    Attributes:
        run_id, tracking_uri: the run. The URI is kept without credentials.
        model_id: the logged model to which metrics are linked. link_model: whether the run must name it, too.
        dataset_name, dataset_digest: the dataset to which metrics are linked.
        timestamp: of the metrics, in milliseconds.
        points: the metrics.
        tables: artifacts that MLflow shall show as tables.
        files: artifact path -> SHA-256, in the order of upload; the last one vouches for the others.
        status: with which a later upload ends the run; None leaves it as it is.
    """

    run_id: str
    tracking_uri: str
    model_id: str | None
    link_model: bool
    dataset_name: str
    dataset_digest: str
    timestamp: int
    points: tuple[Point, ...]
    tables: tuple[str, ...]
    files: Mapping[str, str]
    status: str | None = None
    schema_version: int = SCHEMA_VERSION


def checksum(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def write_manifest(
    spool: Path,
    *,
    run_id: str,
    tracking_uri: str,
    model_id: str | None,
    link_model: bool,
    dataset: tuple[str, str],
    points: Sequence[Point],
    tables: Sequence[str],
    files: Sequence[str],
    timestamp: int | None = None,
    status: str | None = None,
) -> Manifest:
    """Write the manifest of a spool whose artifacts are all there; the metrics' timestamp is now, or as given."""
    manifest = Manifest(
        run_id=run_id,
        tracking_uri=without_secrets(tracking_uri),
        model_id=model_id,
        link_model=link_model,
        dataset_name=dataset[0],
        dataset_digest=dataset[1],
        timestamp=int(time.time() * 1000) if timestamp is None else timestamp,
        points=tuple(points),
        tables=tuple(tables),
        files={name: checksum(spool / ARTIFACTS / name) for name in files},
        status=status,
    )
    atomic_write(spool / MANIFEST, json.dumps(asdict(manifest), indent=1))
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
    known = {f.name for f in fields(Manifest)}
    wrong = sorted(set(stored) - known) or sorted(known - set(stored) - {"status"})
    if wrong:
        raise SpoolError(f"Expected the keys {sorted(known)} in {path}, but {wrong[0]!r} is unknown or missing.")
    try:
        points = stored["points"]
        if not isinstance(points, list):
            raise ConfigError(f"Expected points to be a list, but got {type(points).__name__}.")
        manifest = Manifest(**{**stored, "points": tuple(_point(point) for point in points)})
        check_types(manifest)
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


def _point(stored: Any) -> Point:
    if not isinstance(stored, dict) or set(stored) - {"key", "value", "step"}:
        raise ConfigError("Expected points of key, value and step.")
    value = stored.get("value")
    if type(value) is not float or math.isfinite(value):
        point = Point(**stored)
        check_types(point)
        return point
    check_types(Point(**{**stored, "value": 0.0}))  # MLflow stores NaN, which is no value of a setting
    return Point(**stored)


def _verify(spool: Path, manifest: Manifest) -> None:
    root = spool / ARTIFACTS
    if any(path.is_symlink() for path in (root, *root.rglob("*"))):
        raise SpoolError(f"Expected a spool of plain files, but {spool} holds links.")
    for name, expected in manifest.files.items():
        path = root / name
        if not path.is_file() or checksum(path) != expected:
            raise SpoolError(f"Expected {path} as it was written, but it is missing or changed.")
