"""Where the masks look: mean importance by channel, by time, and by channel x time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._json import plain
from dynamask_mlflow.evaluation.sequences import Sequences


@dataclass(frozen=True, eq=False)
class Profile:
    """Mean mask values over the cells that exist; NaN where none does.

    Attributes:
        by_channel: (d,). by_time: (T,). by_cell: (T, d).
        share_by_channel, share_by_time: the same as shares of the masks' total, which add up to 1.
    """

    by_channel: NDArray[np.float64]
    by_time: NDArray[np.float64]
    by_cell: NDArray[np.float64]
    share_by_channel: NDArray[np.float64]
    share_by_time: NDArray[np.float64]


def profile_of(masks: NDArray[np.floating[Any]], sample: Sequences, least: int = 1) -> Profile:
    """The profile of a sample.

    Args:
        masks: (n, T, d).
        sample: their sequences.
        least: cells and steps that fewer instances have are NaN and count for nothing, so that no number is of a
            smaller group.
    """
    exists = np.broadcast_to(np.bool_(True) if sample.exists is None else sample.exists, masks.shape)
    count = np.where(exists.sum(axis=0) >= least, exists.sum(axis=0), 0)
    mass = np.where(count > 0, np.where(sample.eligible, masks, 0.0).sum(axis=0, dtype=np.float64), 0.0)
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


def profile_record(profile: Profile, sample: Sequences) -> dict[str, Any]:
    """The profile as JSON holds it: names beside numbers, null for what is undefined."""
    channels, times = list(sample.channel_names), list(sample.times)
    return {
        "instances": len(sample),
        "channels": channels,
        "times": times,
        "by_channel": plain(profile.by_channel),
        "by_time": plain(profile.by_time),
        "by_cell": plain(profile.by_cell),
        "share_by_channel": plain(profile.share_by_channel),
        "share_by_time": plain(profile.share_by_time),
    }
