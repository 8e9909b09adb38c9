"""One instance's cells as a picture of matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What can be drawn, and what its scale is called.
PLOTTED = {
    "attributions": "attribution",
    "masks": "probability that the cell is salient",
    "scores": "ranking",
    "binary": "salient",
}
_LABELS = 40  # channels with a name each; of more, some are named


def plot_cells(
    cells: NDArray[Any], kind: str, channels: Sequence[Any], times: Sequence[Any], ax: Axes | None = None
) -> Axes:
    """Draw (T, d), channels down and time across; attributions in two colours around 0.

    Args:
        cells: (T, d) the values.
        kind: one of `PLOTTED`.
        channels: d names.
        times: T labels.
        ax: where to draw; by default a new figure.

    Returns:
        The axes.
    """
    from matplotlib import pyplot

    if cells.ndim != 2:
        raise ValueError(f"Expected one instance, but got cells of shape {cells.shape}.")
    values = cells.T.astype(float)
    if ax is None:
        ax = pyplot.subplots(figsize=(8, min(9, 1.2 + 0.25 * len(values))), layout="constrained")[1]
    most = float(np.abs(values).max()) or 1.0
    least, greatest = (-most, most) if kind == "attributions" else (0.0, 1.0)
    picture = ax.imshow(
        values,
        aspect="auto",
        interpolation="nearest",
        cmap="RdBu_r" if kind == "attributions" else "Greys",
        vmin=least,
        vmax=greatest,
    )
    for axis, labels, room in ((ax.yaxis, channels, _LABELS), (ax.xaxis, times, 12)):
        places = range(0, len(labels), -(-len(labels) // room))
        axis.set_ticks(list(places), [str(labels[place]) for place in places])
    ax.figure.colorbar(picture, ax=ax, label=PLOTTED[kind])
    return ax
