"""Reading npz files of unknown origin: sizes are checked before anything is expanded, objects are refused."""

from __future__ import annotations

import os
import zipfile
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 1 << 32
MAX_BYTES_VARIABLE = "DYNAMASK_MAX_BYTES"
_MOST_ARRAYS = 1000
_LONGEST_HEADER = 20000


class ArchiveError(ValueError):
    """The file is no npz archive that can be read safely; the message says why."""


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
            names = [member.filename for member in members]
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
        raise ArchiveError(f"Expected arrays of numbers and text in {path}, but {member.filename} holds objects.")
    claimed = prod(shape) * dtype.itemsize
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
