"""Masks as PNG, and the colours they are painted with."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from dynamask_mlflow.report import heat_map_png
from dynamask_mlflow.report.colour import paint, scale


def luminance(colours: np.ndarray) -> np.ndarray:
    """CIE lightness L* of sRGB colours."""
    linear = np.where(colours / 255 <= 0.04045, colours / 255 / 12.92, ((colours / 255 + 0.055) / 1.055) ** 2.4)
    y = linear @ np.array([0.2126, 0.7152, 0.0722])
    return 116 * np.cbrt(np.maximum(y, 1e-6)) - 16


@pytest.mark.parametrize("dark", [False, True])
def test_scale_has_even_steps_of_lightness(dark: bool) -> None:
    steps = np.diff(luminance(scale(17, dark=dark).astype(float)))
    assert np.all(steps > 0) if dark else np.all(steps < 0)
    assert np.abs(steps).max() < 1.6 * np.abs(steps).min()


def open_png(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_picture_holds_the_colour_of_every_cell() -> None:
    mask = np.zeros((20, 3))
    mask[4, 1] = 1.0
    picture = open_png(heat_map_png(mask, ["a", "b", "c"], range(20)))
    ink = np.all(picture == paint(np.array(1.0)), axis=-1)
    rows, columns = np.nonzero(ink[:, : picture.shape[1] - 84])  # the colour bar stands to the right
    assert rows.size > 50
    assert np.ptp(rows) < 20
    assert np.ptp(columns) < 20


def test_a_single_needed_cell_survives_when_cells_are_finer_than_pixels() -> None:
    mask = np.zeros((5000, 1200))
    mask[4321, 777] = 1.0
    picture = open_png(heat_map_png(mask, [str(i) for i in range(1200)], range(5000)))
    assert picture.shape[0] < 1200
    assert picture.shape[1] < 1200
    assert np.all(picture[:, :-84] == paint(np.array(1.0)), axis=-1).any()


def test_names_with_markup_or_mathematics_are_drawn_as_they_are() -> None:
    hostile = ["$\\frac{1}{0}$", "</script>" * 40]
    assert open_png(heat_map_png(np.ones((2, 2)), hostile, ["$x", "{y"], title="$" * 500)).shape[1] < 700


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (2, 2, 2)])
def test_picture_refuses_what_is_no_mask(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="Expected a mask of shape"):
        heat_map_png(np.zeros(shape), ["a"] * 3, range(3))


def test_picture_refuses_names_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="Expected 2 times and 3 channel names"):
        heat_map_png(np.zeros((2, 3)), ["a", "b", "c"], [1])


def test_padding_is_hatched_and_holds_no_colour_of_the_scale() -> None:
    mask = np.full((20, 6), 0.6)
    whole, cut = (open_png(heat_map_png(mask, list("abcdef"), range(20), length=n)) for n in (20, 12))
    assert whole.shape == cut.shape
    painted = [np.nonzero(np.all(p == paint(np.array(0.6)), axis=-1)[:, :-84])[1] for p in (whole, cut)]
    left, right = painted[0].min(), painted[0].max()
    assert painted[1].min() == left
    assert painted[1].max() == pytest.approx(left + 0.6 * (right - left), abs=10)
    beyond = cut[:, painted[1].max() + 2 : right]
    assert np.all(beyond == (207, 202, 188), axis=-1).mean() > 0.05
