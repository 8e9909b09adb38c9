"""Arrays and texts as they stand inside the page: bytes in base64, JSON that cannot close its script tag."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow._json import plain
from dynamask_mlflow._ranking import places

MISSING = 65535
_DIRECTION = re.compile(r"\\u(?:202[a-e]|206[6-9])")  # as `undirected` has them, but in JSON
_ROWS = 64  # instances at a time, so that nothing wider than the page itself is held for all of them


def base64_text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")


def bits_of_flags(flags: ArrayLike) -> NDArray[np.uint8]:
    """Flags of any shape as bits, the first in the highest place of the first byte."""
    return np.packbits(np.asarray(flags, dtype=bool).reshape(-1))


def bytes_of_shares(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Shares in [0, 1] as bytes."""
    return np.asarray(np.round(255.0 * np.clip(np.nan_to_num(values), 0.0, 1.0)), dtype=np.uint8)


def bytes_of_ranks(scores: NDArray[Any]) -> NDArray[np.uint8]:
    """The order of the cells of each instance as bytes, ceil(255 sqrt(r / n)) for the r-th best of n.

    The root keeps small areas apart: byte <= 255 sqrt(a) holds for a share a of the cells, to .4 % at a = .25
    and finer below.
    """
    cells = math.prod(np.shape(scores)[1:])
    flat = np.asarray(scores).reshape(len(scores), cells)
    codes = np.ceil(255.0 * np.sqrt(np.arange(1, cells + 1) / max(cells, 1)) - 1e-9).astype(np.uint8)
    found = np.empty(flat.shape, dtype=np.uint8)
    for start in range(0, len(flat), _ROWS):  # the order of a cell takes eight times the room of its byte
        rows = slice(start, start + _ROWS)
        found[rows] = codes[places(np.nan_to_num(flat[rows].astype(np.float64), nan=-np.inf))]
    return found.reshape(np.shape(scores))


def words_of_signed(values: ArrayLike) -> tuple[NDArray[np.int16], list[float]]:
    """Signed values (N, T, d) as 16-bit words w with the greatest size s of each instance: v = sign(w) s (w / 32767)^2.

    The square keeps small values apart: a word is exact to .003 % of the greatest value and finer below, so that sums
    of cells are right in every digit that the page shows.
    """
    array = np.nan_to_num(np.asarray(values, dtype=np.float32), posinf=0.0, neginf=0.0)
    sizes = np.abs(array).reshape(len(array), -1).max(axis=1, initial=0.0)
    unit = np.where(sizes > 0, sizes, 1.0)[:, None, None]
    found = np.empty(array.shape, dtype="<i2")
    for start in range(0, len(array), _ROWS):
        rows = slice(start, start + _ROWS)
        part = array[rows]
        found[rows] = np.round(32767.0 * np.sign(part) * np.sqrt(np.abs(part) / unit[rows]))
    return found, [float(size) for size in sizes]


def words_of_values(values: ArrayLike) -> tuple[NDArray[np.uint16], list[float], list[float]]:
    """Values (N, T, d) as 16-bit steps between each channel's extremes; not-a-number is `MISSING`."""
    array = np.asarray(values)
    array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    finite = np.isfinite(array)
    low = array.min(axis=(0, 1), where=finite, initial=np.inf).astype(np.float64)
    high = array.max(axis=(0, 1), where=finite, initial=-np.inf).astype(np.float64)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    width = np.where(high > low, high - low, 1.0)
    words = np.empty(array.shape, dtype="<u2")
    for start in range(0, len(array), _ROWS):
        rows = slice(start, start + _ROWS)
        steps = np.round((np.where(finite[rows], array[rows], low) - low) / width * (MISSING - 1))
        words[rows] = np.where(finite[rows], steps, MISSING)
    return words, [float(v) for v in low], [float(v) for v in high]


def script_json(value: Any) -> str:
    """JSON for a script tag: without `<`, `>` and `&` no name can end the script or open a comment."""
    text = json.dumps(plain(value), ensure_ascii=True, separators=(",", ":"))
    text = _DIRECTION.sub(r"\\ufffd", text)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
