"""Results on disk before they go over the network: a folder that can be uploaded now, or later by command.

A spool is complete once its `manifest.json` exists, which is written last. Metrics keep their timestamps, so
uploading twice logs nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from dynamask_mlflow._files import whole_file
from dynamask_mlflow.tracking.metric_log import Point

MANIFEST = "manifest.json"
ARTIFACTS = "artifacts"
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Where the results in a spool belong.

    Attributes:
        run_id, tracking_uri: the run. The URI is kept without user and password.
        model_id: the logged model to which metrics are linked. link_model: whether the run must name it, too.
        dataset_name, dataset_digest: the dataset to which metrics are linked.
        timestamp: of the metrics, in milliseconds.
        points: the metrics.
        tables: artifacts that MLflow shall show as tables.
        files: artifact path -> SHA-256, in the order of upload; the last one vouches for the others.
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
    schema_version: int = SCHEMA_VERSION


def new_spool(base: str | None, run_id: str) -> Path:
    """An empty folder that only its owner can read."""
    if base is not None:
        Path(base).mkdir(parents=True, exist_ok=True)
    spool = Path(tempfile.mkdtemp(prefix=f"dynamask-{run_id[:12]}-", dir=base))
    (spool / ARTIFACTS).mkdir()
    return spool


def checksum(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def seal(
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
) -> Manifest:
    """Write the manifest of a spool whose artifacts are all there; the metrics' timestamp is now, or as given."""
    manifest = Manifest(
        run_id=run_id,
        tracking_uri=without_credentials(tracking_uri),
        model_id=model_id,
        link_model=link_model,
        dataset_name=dataset[0],
        dataset_digest=dataset[1],
        timestamp=int(time.time() * 1000) if timestamp is None else timestamp,
        points=tuple(points),
        tables=tuple(tables),
        files={name: checksum(spool / ARTIFACTS / name) for name in files},
    )
    write_whole(spool / MANIFEST, json.dumps(asdict(manifest), indent=1))
    return manifest


def read_manifest(spool: Path) -> Manifest:
    """Read a spool's manifest and check that every file is there as it was written."""
    try:
        stored: dict[str, Any] = json.loads((spool / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"Expected a complete spool in {spool}, but its manifest cannot be read: {error}.") from error
    if stored.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"Expected a spool of schema version {SCHEMA_VERSION}, but got {stored.get('schema_version')}."
        )
    stored["points"] = tuple(Point(**point) for point in stored["points"])
    manifest = Manifest(**{**stored, "tables": tuple(stored["tables"])})
    for name, expected in manifest.files.items():
        path = spool / ARTIFACTS / name
        if not path.is_file() or checksum(path) != expected:
            raise ValueError(f"Expected {path} as it was written, but it is missing or changed.")
    return manifest


def discard(spool: Path) -> None:
    (spool / MANIFEST).unlink(missing_ok=True)  # first, so that a half-deleted spool never looks complete
    shutil.rmtree(spool, ignore_errors=True)


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file that appears whole or not at all."""
    with whole_file(path) as file:
        file.write(text.encode() if isinstance(text, str) else text)


def without_credentials(uri: str) -> str:
    parts = urlsplit(uri)
    if not parts.hostname or "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
