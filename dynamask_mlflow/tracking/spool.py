"""Results on disk before they go over the network: a folder that can be uploaded now, or later by command.

A spool is opened before the fits, so that a full or read-only disk is found out early. It is complete once its
`manifest.json` exists, which is written last. Metrics keep their timestamps, so uploading twice logs nothing twice.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow._paths import local_path
from dynamask_mlflow.tracking.errors import SpoolError
from dynamask_mlflow.tracking.manifest import (
    ARTIFACTS,
    MANIFEST,
    SCHEMA_VERSION,
    Destination,
    Manifest,
    checksum,
    read_manifest,
    write_manifest,
)

_logger = logging.getLogger(__name__)
_PREFIX, _OWNER = "dynamask-", "owner.json"
_LEAST = 32 << 20  # bytes free, whatever is to be stored
_MOST_FOLDERS = 50


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
    """An empty folder that only its owner can read, with room for `needed` bytes.

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
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if host != socket.gethostname():
        return not (spool / MANIFEST).is_file()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
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
    except (OSError, ValueError, RuntimeError):
        return []
    return [Path(name) for name in stored if isinstance(name, str)] if isinstance(stored, list) else []


def _remember(folder: Path) -> None:
    """Note a folder for `upload --list`; a home that cannot be written costs no evaluation."""
    known, place = _remembered(), folder.resolve()
    if place in known:
        return
    kept = [*(path for path in known if path.is_dir()), place][-_MOST_FOLDERS:]
    try:
        atomic_write(_index(), json.dumps([str(path) for path in kept]))
    except (OSError, RuntimeError) as error:
        _logger.debug("The folder %s could not be noted: %s", place, error)


__all__ = [
    "ARTIFACTS",
    "MANIFEST",
    "SCHEMA_VERSION",
    "Destination",
    "Manifest",
    "SpoolFolder",
    "checksum",
    "discard",
    "find_spools",
    "new_spool",
    "owned",
    "read_manifest",
    "spool_folders",
    "write_manifest",
]
