"""Where masks look: mean importance by channel, by time, and by channel x time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamask_mlflow.metrics._arrays import FloatArray, as_cells, as_selection


@dataclass(frozen=True, eq=False)
class Profile:
    """Mean mask values over the cells that exist; NaN where none does.

    Attributes:
        by_channel: (d,). by_time: (T,). by_cell: (T, d).
        share_by_channel, share_by_time: the same as shares of the masks' total, which add up to 1.
    """

    by_channel: FloatArray
    by_time: FloatArray
    by_cell: FloatArray
    share_by_channel: FloatArray
    share_by_time: FloatArray


def mask_profile(
    masks: ArrayLike, eligible: ArrayLike | None = None, exists: ArrayLike | None = None, least: int = 1
) -> Profile:
    """The profile of masks (N, T, d).

    Args:
        eligible: cells that may be salient; what a mask has elsewhere counts for nothing.
        exists: cells that are no padding, over which means are taken.
        least: cells and steps that fewer instances have are NaN and count for nothing, so that no number is of a
            smaller group.

    Example:
        >>> mask_profile([[[1.0, 0.0], [0.5, 0.5]]]).share_by_channel.tolist()
        [0.75, 0.25]
    """
    values = as_cells(masks, "masks")
    there = as_selection(exists, values.shape, "exists")
    count = np.where(there.sum(axis=0) >= least, there.sum(axis=0), 0)
    chosen = np.where(as_selection(eligible, values.shape, "eligible"), values, 0.0)
    mass = np.where(count > 0, chosen.sum(axis=0, dtype=np.float64), 0.0)
    total = mass.sum()
    unit = total if total > 0 else np.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        return Profile(
            by_channel=mass.sum(axis=0) / count.sum(axis=0),
            by_time=mass.sum(axis=1) / count.sum(axis=1),
            by_cell=mass / count,
            share_by_channel=mass.sum(axis=0) / unit,
            share_by_time=mass.sum(axis=1) / unit,
        )
