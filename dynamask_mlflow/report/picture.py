"""A mask as a PNG: channels down, time across, the darker the more important."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw, ImageFont

from dynamask_mlflow.report.colour import paint, scale

_PAPER, _INK, _FAINT, _HOLE = (255, 255, 255), (32, 38, 50), (110, 118, 132), (207, 202, 188)
_WIDTH, _HEIGHT = 880, 900  # what the cells may fill; small masks take less
_LABEL, _TITLE = 12, 16


@lru_cache(maxsize=4)
def _font(size: int) -> ImageFont.FreeTypeFont:
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), size)


def _fit(text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """Cut a label to a width, with an ellipsis."""
    text = " ".join(text.split())
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[: -max(1, len(text) // 12)]
    return text + "…"


def _pool(mask: NDArray[np.float32], limit: int, axis: int) -> NDArray[np.float32]:
    """Greatest value of neighbours where there are more cells than pixels: a salient cell never vanishes."""
    size = mask.shape[axis]
    if size <= limit:
        return mask
    starts = np.unique(np.linspace(0, size, limit, endpoint=False).astype(np.intp))
    return np.asarray(np.maximum.reduceat(mask, starts, axis=axis))


def _steps(count: int, room: float, least: float) -> range:
    """Positions to label so that neighbours are at least `least` pixels apart."""
    every = max(1, int(np.ceil(least * count / max(room, 1.0))))
    for nice in (1, 2, 3, 4, 6, 8, 12, 24, 50, 100, 200, 500, 1000):
        if nice >= every:
            every = nice
            break
    return range(0, count, every)


def _hatched(colours: NDArray[np.uint8], start: int) -> None:
    """Draw padding, the columns from `start` on, as lines at an angle."""
    rows, columns = np.indices(colours.shape[:2])
    colours[:, start:] = np.where(((rows + columns) % 9 == 0)[..., None], _HOLE, 255)[:, start:]


def heat_map_png(
    mask: ArrayLike,
    channel_names: Sequence[str],
    times: Sequence[Any],
    title: str = "",
    length: int | None = None,
) -> bytes:
    """Draw a mask (T, d) in [0, 1], hatched from step `length` on; returns the bytes of a PNG file.

    Example:
        >>> heat_map_png([[0.0, 1.0], [0.5, 0.2]], ["heart rate", "lactate"], [0, 1])[1:4]
        b'PNG'
    """
    cells = np.clip(np.nan_to_num(np.asarray(mask, dtype=np.float32)), 0.0, 1.0)
    if cells.ndim != 2 or 0 in cells.shape:
        raise ValueError(f"Expected a mask of shape (T, d), not empty, but got {cells.shape}.")
    steps, channels = cells.shape
    if (len(times), len(channel_names)) != (steps, channels):
        raise ValueError(
            f"Expected {steps} times and {channels} channel names, but got {len(times)} and {len(channel_names)}."
        )
    cells = _pool(_pool(cells, _WIDTH, 0), _HEIGHT, 1)
    across, down = (max(1, min(16, size // count)) for size, count in zip((_WIDTH, _HEIGHT), cells.shape, strict=True))
    down = max(down, 4) if cells.shape[1] * 4 <= _HEIGHT else down
    width, height = cells.shape[0] * across, cells.shape[1] * down

    small, large = _font(_LABEL), _font(_TITLE)
    rows = _steps(channels, height, _LABEL + 2)
    labels = {row: _fit(str(channel_names[row]), small, 190) for row in rows}
    left = 24 + int(max(small.getlength(label) for label in labels.values()))
    top = 52 if title else 20
    canvas = Image.new("RGB", (left + max(width, 240) + 84, top + max(height, 60) + 44), _PAPER)
    colours = np.repeat(np.repeat(paint(cells.T), down, axis=0), across, axis=1)
    if min(across, down) >= 7:  # hair lines between cells, as long as they do not eat the colour
        colours[down - 1 :: down] = colours[:, across - 1 :: across] = 255
    if length is not None and length < steps:
        _hatched(colours, round(length * width / steps))
    canvas.paste(Image.fromarray(np.ascontiguousarray(colours)), (left, top))
    bar = np.repeat(scale(max(height, 60))[::-1][:, None, :], 12, axis=1)
    canvas.paste(Image.fromarray(np.ascontiguousarray(bar)), (left + width + 18, top))

    draw = ImageDraw.Draw(canvas)
    if title:
        draw.text((14, 16), _fit(title, large, canvas.width - 28), fill=_INK, font=large)
    for row, label in labels.items():
        draw.text((left - 8, top + (row + 0.5) * height / channels), label, fill=_INK, font=small, anchor="rm")
    widest = max(small.getlength(str(t)[:16]) for t in (times[0], times[-1]))
    for column in _steps(steps, width, widest + 14):
        label = _fit(str(times[column]), small, widest + 10)
        place = left + (column + 0.5) * width / steps
        draw.text((place, top + height + 8), label, fill=_FAINT, font=small, anchor="mt")
    for value in (0.0, 0.5, 1.0):
        place = top + (1.0 - value) * (len(bar) - 1)
        draw.text((left + width + 36, place), f"{value:g}", fill=_FAINT, font=small, anchor="lm")
    file = io.BytesIO()
    canvas.save(file, "PNG", compress_level=1)
    return file.getvalue()
