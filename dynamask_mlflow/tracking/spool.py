"""Results on disk before they go over the network: a folder that can be uploaded now, or later by command.

A spool is opened before the fits, so that a full or read-only disk is found out early. It is complete once its
`manifest.json` exists, which is written last. Metrics keep their timestamps, so uploading twice logs nothing twice.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dynamask_mlflow._files import atomic_write, checksum
from dynamask_mlflow._paths import local_path
from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow._settings import ConfigError, Many, Settings
from dynamask_mlflow.tracking.errors import SpoolError

_logger = logging.getLogger(__name__)
MANIFEST = "manifest.json"
ARTIFACTS = "artifacts"
SCHEMA_VERSION = 1
STATUSES = (None, "FINISHED", "FAILED")
_LARGEST = 1 << 28
_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHA = re.compile(r"[0-9a-f]{64}")
_PREFIX, _OWNER, _RESERVED = "dynamask-", "owner.json", "reserved"
_LEAST = 32 << 20  # bytes free, whatever is to be stored
_MOST_FOLDERS = 50
_DAMAGED = (OSError, ValueError, KeyError, TypeError, OverflowError, RuntimeError)  # a small file of ours, read again


@dataclass(frozen=True)
class SpoolFolder:
    """A spool that is there.

    Attributes:
        path: the folder. complete: whether it can be uploaded. in_use: whether the process that made it still runs.
        created: seconds since 1970.
    """

    path: Path
    complete: bool
    in_use: bool
    created: float


def new_spool(base: str | None, run_id: str, needed: int = 0) -> Path:
    """An empty folder that only its owner can read, with room for `needed` bytes, which is taken until `written_to`.

    Spools that a killed process left unfinished are removed; finished ones that were never uploaded are mentioned.
    """
    folder = Path(tempfile.gettempdir()) if base is None else local_path(base, "spool")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        spool = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{run_id[:12]}-", dir=folder))
    except OSError as error:
        raise SpoolError(
            f"Expected a folder for results that can be written, but {folder} cannot: {error.strerror or error}. "
            "Name another one with the setting `spool`."
        ) from error
    try:
        free = shutil.disk_usage(spool).free
        if free < needed + _LEAST:
            raise SpoolError(
                f"Expected {(needed + _LEAST) / 1e6:,.0f} MB free for the results in {folder}, but there are "
                f"{free / 1e6:,.0f} MB. Name another folder with the setting `spool`."
            )
        if needed:
            _reserve(spool / _RESERVED, needed + _LEAST)
        (spool / ARTIFACTS).mkdir()
        atomic_write(spool / _OWNER, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        if base is not None:
            _remember(folder)
        _tidy(folder)
    except BaseException as error:
        discard(spool)
        if isinstance(error, OSError):
            raise SpoolError(f"Expected a folder for results that can be written, but {folder}: {error}.") from error
        raise
    return spool


def _reserve(path: Path, size: int) -> None:
    """Take the room now: the disk may fill up while the fits run."""
    with path.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except (AttributeError, OSError) as error:  # not on every system, nor on every file system
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise


@contextmanager
def written_to(spool: Path) -> Iterator[None]:
    """Give back the room that `new_spool` took, since the block writes the results; what fills the disk is named."""
    (spool / _RESERVED).unlink(missing_ok=True)
    try:
        yield
    except OSError as error:
        raise SpoolError(
            f"Expected room for the results in {spool.parent}, but they could not be written: "
            f"{error.strerror or error}. Name another folder with the setting `spool`."
        ) from error


def find_spools(folders: Iterable[Path] | None = None) -> list[SpoolFolder]:
    """Spools of this user, oldest first: in the given folders, or in every folder that was ever used for them."""
    found = {}
    for folder in spool_folders() if folders is None else folders:
        try:
            entries = [entry for entry in folder.iterdir() if entry.name.startswith(_PREFIX)]
        except OSError:
            continue
        for path in entries:
            try:
                about = path.lstat()
            except OSError:
                continue
            if path.is_symlink() or not path.is_dir() or not owned(path) or not (path / ARTIFACTS).is_dir():
                continue
            complete = (path / MANIFEST).is_file()
            found[path.resolve()] = SpoolFolder(path, complete, _in_use(path), about.st_mtime)
    return sorted(found.values(), key=lambda spool: spool.created)


def spool_folders() -> list[Path]:
    """The system's folder for temporary files, and those that the setting `spool` has named."""
    return list(dict.fromkeys([Path(tempfile.gettempdir()), *_remembered()]))


def owned(spool: Path) -> bool:
    """Whether the folder is this user's and nobody else can write there."""
    if not hasattr(os, "getuid"):
        return True
    about = spool.lstat()
    return about.st_uid == os.getuid() and about.st_mode & 0o022 == 0


def discard(spool: Path) -> None:
    (spool / MANIFEST).unlink(missing_ok=True)  # first, so that a half-deleted spool never looks complete
    shutil.rmtree(spool, ignore_errors=True)


def _tidy(folder: Path) -> None:
    waiting = 0
    for spool in find_spools([folder]):
        if spool.in_use:
            continue
        if spool.complete:
            waiting += 1
        elif (spool.path / _OWNER).is_file() and time.time() - spool.created > 60:  # else it is none of ours
            discard(spool.path)
    if waiting:
        _logger.warning(
            "dynamask: %d earlier results in %s were never uploaded; `dynamask-mlflow upload --list` shows them.",
            waiting,
            folder,
        )


def _in_use(spool: Path) -> bool:
    """Whether the process that made the spool still runs; on another machine nobody knows, so it may."""
    try:
        owner = json.loads((spool / _OWNER).read_text(encoding="utf-8"))
        pid, host = int(owner["pid"]), str(owner["host"])
    except _DAMAGED:
        return False
    if host != socket.gethostname():
        return not (spool / MANIFEST).is_file()
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return pid != os.getpid() or not (spool / MANIFEST).is_file()


def _index() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dynamask_mlflow" / "spool_folders.json"


def _remembered() -> list[Path]:
    try:
        stored = json.loads(_index().read_text(encoding="utf-8"))
    except _DAMAGED:
        return []
    named = [name for name in stored if isinstance(name, str)] if isinstance(stored, list) else []
    return [Path(name) for name in named if os.path.isdir(name)]  # noqa: PTH112  (false where Path would raise)


def _remember(folder: Path) -> None:
    """Note a folder for `upload --list`; a home that cannot be written costs no evaluation."""
    known, place = _remembered(), folder.resolve()
    if place in known:
        return
    kept = [*known, place][-_MOST_FOLDERS:]
    try:
        atomic_write(_index(), json.dumps([str(path) for path in kept]))
    except (OSError, RuntimeError) as error:
        _logger.debug("The folder %s could not be noted: %s", place, error)


@dataclass(frozen=True)
class Point:
    """One value of one metric. Curves have several, at step = 1000 x area."""

    key: str
    value: float
    step: int = 0


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
