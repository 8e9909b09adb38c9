"""What MLflow's client leaves open: searches for any text, quotes included, and downloads that do not stay behind.

MLflow's filters know no escape: text in single quotes may hold double ones and the other way round. Text with both, or
with a backslash, is looked for with wildcards in their places, so compare what is found with what was meant.

`mlflow.artifacts.download_artifacts` downloads into the system's folder for temporary files and leaves it there: a copy
of the model, and of the stays that a reference keeps, for every audit. Here the folder goes with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_PREFIX = "dynamask-downloads-"
_OLD = 24 * 3600  # seconds: a process of another container may live although its number is unknown here
_folders: dict[int, str] = {}


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
        _folders[process] = tempfile.mkdtemp(prefix=f"{_PREFIX}{process}-")
        atexit.register(_remove_own, process)
    return tempfile.mkdtemp(dir=_folders[process])


def _remove_own(process: int) -> None:
    if os.getpid() == process:  # not in a fork, which ends before its parent
        shutil.rmtree(_folders.pop(process), ignore_errors=True)


def _remove_forgotten() -> None:
    """Folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            about = folder.lstat()
            ours = about.st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
            if ours and time.time() - about.st_mtime > _OLD:
                try:
                    os.kill(int(folder.name.removeprefix(_PREFIX).partition("-")[0]), 0)
                except ProcessLookupError:
                    shutil.rmtree(folder, ignore_errors=True)
