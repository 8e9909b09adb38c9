"""Folders and files of this machine: an address of another kind is refused, not taken for the name of a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dynamask_mlflow._secrets import without_secrets

_SCHEME = re.compile(r"(?i)(file(?=:)|[a-z][a-z0-9+.\-]+(?=:/))")  # one letter is a drive


def local_path(address: str | os.PathLike[str], what: str) -> Path:
    """The path behind a plain path or a `file://` URI; `what` names the setting in the error."""
    text = os.fspath(address)
    scheme = _SCHEME.match(text)
    if scheme is None:
        if not text or "\0" in text or "://" in text:
            raise ValueError(f"Expected {what} to be a path, but got {without_secrets(text)!r}.")
        return Path(text).expanduser()
    path = re.sub(r"^(?i:file):(//(localhost)?(?=/))?", "", text)
    if scheme.group(1).lower() != "file" or path.startswith("//") or not path.startswith("/"):
        raise ValueError(
            f"Expected {what} to be a path on this machine or file:///..., but got {without_secrets(text)!r}."
        )
    return Path(path)
