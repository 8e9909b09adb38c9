"""What MLflow's client leaves open: searches for any text, quotes included, and downloads that do not stay behind.

MLflow's filters know no escape: text in single quotes may hold double ones and the other way round. Text with both, or
with a backslash, is looked for with wildcards in their places, so compare what is found with what was meant.

`mlflow.artifacts.download_artifacts` downloads into the system's folder for temporary files and leaves it there: a copy
of the model, and of the stays that a reference keeps, for every audit. Here the folder goes with this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

_PREFIX = "dynamask-downloads-"
_LOCK = "in_use.lock"
_OLD = 24 * 3600  # seconds: without locks a process of another container may live although its number is unknown here
_folders: dict[int, tuple[str, IO[str] | None]] = {}


def equals(key: str, value: str) -> str:
    """A condition that holds wherever `key` is `value`; with both kinds of quotes in it, possibly elsewhere, too.

    Example:
        >>> equals("name", "it's")
        'name = "it\\'s"'
    """
    if "\\" not in value:
        if "'" not in value:
            return f"{key} = '{value}'"
        if '"' not in value:
            return f'{key} = "{value}"'
    pattern = re.sub(r"""['"\\%]""", "_", value)
    return f"{key} LIKE '{pattern}'"


def tag_equals(tag: str, value: str) -> str:
    return equals(f"tags.`{tag}`", value)


def download(
    artifact_uri: str | None = None,
    *,
    run_id: str | None = None,
    artifact_path: str | None = None,
    dst_path: str | None = None,
) -> Path:
    """An artifact by its URI, or by its run and path.

    What lies on this machine is not copied: a copy would follow its links, which loaders of untrusted models refuse.

    Args:
        dst_path: a folder to keep it in. By default it is there until this process ends.
    """
    from mlflow.artifacts import download_artifacts

    in_place = dst_path is None and artifact_uri is not None and _is_local(artifact_uri)
    folder = None if in_place else dst_path or new_folder()
    what = {"artifact_uri": artifact_uri, "run_id": run_id, "artifact_path": artifact_path}
    return Path(download_artifacts(**what, dst_path=folder))


def _is_local(artifact_uri: str) -> bool:
    """Whether an artifact lies in a folder of this machine."""
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.models_artifact_repo import ModelsArtifactRepository
    from mlflow.store.artifact.runs_artifact_repo import RunsArtifactRepository

    models: Any = ModelsArtifactRepository  # without types
    try:
        if artifact_uri.startswith("models:"):
            artifact_uri = models.get_underlying_uri(models.split_models_uri(artifact_uri)[0])
        elif artifact_uri.startswith("runs:"):
            artifact_uri = RunsArtifactRepository.get_underlying_uri(artifact_uri)
    except MlflowException:  # the download says what is wrong
        return False
    return urlsplit(artifact_uri).scheme in ("", "file")


def new_folder() -> str:
    """An empty folder that goes with this process, for loaders of MLflow that take a `dst_path`."""
    process = os.getpid()
    if process not in _folders:
        _remove_forgotten()
        folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{process}-")
        _folders[process] = folder, _locked(Path(folder))
        Finalize(None, _remove_own, args=(process,), exitpriority=0)  # `atexit` does not run in a `Process`
    return tempfile.mkdtemp(dir=_folders[process][0])


def _remove_own(process: int) -> None:
    if os.getpid() == process:  # not in a fork, which ends before its parent
        folder, lock = _folders.pop(process)
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.close()


def _locked(folder: Path) -> IO[str] | None:
    """A lock that goes with this process, however it ends; None where there are no such locks."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        file = (folder / f"{_LOCK}.new").open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
        (folder / f"{_LOCK}.new").rename(folder / _LOCK)  # nobody sees a lock that is not held yet
        return file
    return None


def _is_released(folder: Path) -> bool:
    """Whether the process that held the folder's lock is gone."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        with (folder / _LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _remove_forgotten() -> None:
    """Folders of processes that were killed: what they hold is of a model, or of stays."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            about = folder.lstat()
            ours = about.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
            if ours and _is_released(folder):
                shutil.rmtree(folder, ignore_errors=True)
            elif ours and time.time() - about.st_mtime > _OLD:
                try:
                    os.kill(int(folder.name.removeprefix(_PREFIX).partition("-")[0]), 0)
                except ProcessLookupError:
                    shutil.rmtree(folder, ignore_errors=True)
