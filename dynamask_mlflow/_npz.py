"""npz files: written whole, without pickle; read with sizes checked before anything is expanded, objects refused."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._files import atomic_file

MAX_BYTES = 1 << 32
MAX_BYTES_VARIABLE = "DYNAMASK_MAX_BYTES"
_MOST_ARRAYS = 1000
_LONGEST_HEADER = 20000


class ArchiveError(ValueError):
    """The file is no npz archive that can be read safely; the message says why."""


def save_archive(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Path:
    """Write arrays by name, and beside them a JSON object; the file appears whole or not at all."""
    text = json.dumps(meta, sort_keys=True).encode()
    with atomic_file(path) as file:
        np.savez_compressed(file, meta=np.frombuffer(text, dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return path


def load_archive(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The JSON object and the arrays that `save_archive` wrote.

    Raises:
        ValueError: if the file is none; the message says that a file of `kind` was expected.
    """
    if not Path(path).exists():
        raise ValueError(f"Expected a file of {kind} at {path}, but there is none.")
    try:
        stored = load_arrays(path)
        if "meta" not in stored:
            raise ArchiveError(f"Expected what `save` wrote, but it holds {', '.join(list(stored)[:10]) or 'nothing'}")
        meta = json.loads(stored.pop("meta").tobytes())
        if not isinstance(meta, dict):
            raise ArchiveError(f"Expected a JSON object beside the arrays, but got {type(meta).__name__}")
    except (KeyError, ValueError) as error:
        why = str(error).rstrip(".")
        raise ValueError(f"Expected a file of {kind} at {path}, but it cannot be read: {why}.") from error
    return meta, stored


def load_arrays(path: str | os.PathLike[str], max_bytes: int | None = None) -> dict[str, NDArray[Any]]:
    """All arrays of an npz file, by name.

    Args:
        path: the file.
        max_bytes: the most that the arrays may take together; by default the environment variable
            DYNAMASK_MAX_BYTES, or else 4 GiB.

    Raises:
        ArchiveError: for a file that is damaged, holds objects, or would take more memory than allowed.
    """
    limit = max_size() if max_bytes is None else max_bytes
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_ARRAYS:
                raise ArchiveError(f"Expected at most {_MOST_ARRAYS} arrays in {path}, but got {len(members)}.")
            names = [member.filename.removesuffix(".npy") for member in members]
            if len(set(names)) < len(names):
                raise ArchiveError(f"Expected every array once in {path}, but some names are repeated.")
            total = sum(_size(archive, member, path) for member in members)
            if total > limit:
                raise ArchiveError(
                    f"Expected at most {limit:,} bytes of arrays in {path}, but it claims {total:,}. "
                    f"Set {MAX_BYTES_VARIABLE} if that is meant."
                )
            return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}
    except ArchiveError:
        raise
    except (OSError, EOFError, ValueError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise ArchiveError(f"Expected an npz file at {path}, but cannot read it: {error}.") from error
    except Exception as error:  # zlib.error and whatever else a damaged stream gives
        raise ArchiveError(f"Expected an npz file at {path}, but it is damaged ({type(error).__name__}).") from error


def max_size() -> int:
    """The limit in bytes: DYNAMASK_MAX_BYTES, or 4 GiB."""
    given = os.environ.get(MAX_BYTES_VARIABLE)
    if not given:
        return MAX_BYTES
    if not given.isdecimal() or int(given) < 1:
        raise ArchiveError(f"Expected {MAX_BYTES_VARIABLE} to be a number of bytes, but got {given!r}.")
    return int(given)


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: object) -> int:
    """Bytes that the array takes, by its own header, which must agree with what the archive says."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file, max_header_size=_LONGEST_HEADER)
        held = member.file_size - file.tell()
    if dtype.hasobject:
        raise ArchiveError(
            f"Expected arrays of numbers and text in {path}, but {member.filename} holds objects. Save names as text: "
            "np.array(names, dtype=str)."
        )
    claimed = prod(shape) * max(dtype.itemsize, 1)  # text of no width would take nothing, however much there is of it
    if claimed != held or any(size < 0 for size in shape):
        raise ArchiveError(
            f"Expected {held:,} bytes in {member.filename} of {path}, as it holds, but its header claims {claimed:,}."
        )
    return claimed


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False, max_header_size=_LONGEST_HEADER)
        file.read(1)  # to the end, where the checksum is compared
    return array
