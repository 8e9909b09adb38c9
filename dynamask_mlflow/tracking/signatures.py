"""Signatures of model versions: who holds the key vouches for every byte of a version, code included.

A signature is an HMAC-SHA-256 over the model's name and the digests of its files, kept as a tag of the version. Who
may register a version, or write tags, but does not know the key cannot make one.
"""

from __future__ import annotations

import hmac
import os
import shutil
from pathlib import Path

from dynamask_mlflow._files import checksum
from dynamask_mlflow.tracking.errors import UntrustedModelError

KEY_VARIABLE = "DYNAMASK_SIGNING_KEY"
TAG = "dynamask.signature"
_LEAST = 16
_WRITTEN_BY_THE_DOWNLOAD = "registered_model_meta"


def signature_of(folder: str | os.PathLike[str], name: str) -> str:
    """The signature of a model in a local folder under the key in the environment.

    Raises:
        UntrustedModelError: if there is no key of at least 16 characters, or the folder holds links.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if len(key) < _LEAST:
        raise UntrustedModelError(
            f"Expected the environment variable {KEY_VARIABLE} to hold a secret of at least {_LEAST} characters, "
            f"but it has {len(key)}."
        )
    digest = hmac.new(key.encode(), name.encode() + b"\0", "sha256")
    root = Path(folder)
    for path in sorted(root.rglob("*"), key=lambda found: found.relative_to(root).as_posix()):
        inside = path.relative_to(root).as_posix()
        if path.is_symlink():
            raise UntrustedModelError(f"Expected plain files, but the model holds the link {inside!r}.")
        if path.is_file() and inside != _WRITTEN_BY_THE_DOWNLOAD:
            digest.update(f"{len(inside)}:{inside}:{checksum(path)}\n".encode())
    return digest.hexdigest()


def sign_version(name: str, version: str) -> str:
    """Sign a registered version with the key in the environment; returns the signature."""
    from mlflow import MlflowClient

    from dynamask_mlflow.tracking.mlflow_client import download

    signature = signature_of(download(f"models:/{name}/{version}"), name)
    MlflowClient().set_model_version_tag(name, version, TAG, signature)
    return signature


def signed_folder(name: str, version: str) -> str:
    """Download a version and check its signature; load it from the returned folder, not from the registry again.

    The folder is this process's own: where the registry's files lie on this machine, they could change after the check.

    Raises:
        UntrustedModelError: if the version is not signed, or its files are not those that were signed.
    """
    from mlflow import MlflowClient

    from dynamask_mlflow.tracking.mlflow_client import download, new_folder

    stored = MlflowClient().get_model_version(name, version).tags.get(TAG)
    if not stored:
        raise UntrustedModelError(
            f"Expected a signed model, but version {version} of {name!r} has no tag {TAG}. "
            f"Sign it with: dynamask-mlflow sign models:/{name}/{version}"
        )
    folder = str(Path(new_folder()) / "model")
    shutil.copytree(download(f"models:/{name}/{version}"), folder, symlinks=True)
    if not hmac.compare_digest(stored, signature_of(folder, name)):
        raise UntrustedModelError(
            f"Expected the files that were signed, but those of version {version} of {name!r} differ, "
            "or the key is another."
        )
    return folder
