"""The colour scale of every heat map: even steps of lightness, so it reads without colours and in grey print.

The scale is a path through OKLCH (lightness, chroma, hue). Lightness falls linearly from paper to ink, hue
turns from yellow over teal to navy: the common forms of colour blindness keep the blue-yellow axis. On a dark
page it runs the other way, from a night blue that recedes into the page to a pale light.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# the first and last lightness; then knots of (position, chroma, hue in degrees)
_LIGHT = (
    (0.968, 0.27),
    ((0, 0.006, 100), (0.12, 0.045, 122), (0.35, 0.085, 178), (0.6, 0.092, 226), (1, 0.085, 272)),
)
_DARK = (
    (0.275, 0.965),
    ((0, 0.03, 270), (0.15, 0.07, 262), (0.4, 0.092, 226), (0.65, 0.085, 178), (1, 0.03, 104)),
)

_LMS_FROM_LAB = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_RGB_FROM_LMS = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def scale(size: int = 256, dark: bool = False) -> NDArray[np.uint8]:
    """(size, 3) sRGB colours from 0 to 1: from paper to ink, or for a dark page from night to light."""
    (first, last), knots = _DARK if dark else _LIGHT
    t = np.linspace(0.0, 1.0, size)
    lightness = first + (last - first) * t
    positions, chromas, hues = zip(*knots, strict=True)
    chroma, hue = np.interp(t, positions, chromas), np.deg2rad(np.interp(t, positions, hues))
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1)
    linear = np.clip((lab @ _LMS_FROM_LAB.T) ** 3 @ _RGB_FROM_LMS.T, 0.0, 1.0)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.round(255.0 * srgb), dtype=np.uint8)


def paint(values: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Colours (..., 3) of values in [0, 1]."""
    indices = np.round(255.0 * np.clip(np.nan_to_num(values), 0.0, 1.0)).astype(np.intp)
    return np.asarray(scale()[indices], dtype=np.uint8)
