"""The model arm: two versions on the same instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynamask_mlflow.audit.statistics.effect import total_variation
from dynamask_mlflow.audit.statistics.marginals import Floats


@dataclass(frozen=True, eq=False)
class VersionShift:
    """Attention of a new version against an old one; effects only, since every retrain is significant.

    Attributes:
        channels, hours: total variation between channels and between hours.
        largest: greatest change of one channel's share, and `channel` its position.
        lost: greatest relative loss of a channel that had at least `important` of the attention, and `lost_channel`
            its position; 1 for a version that no longer looks at it at all. A retrain shifts weights between channels
            that carry the same, but does not give one up altogether.
        channel_shift (d,), hour_shift (T,): new minus old.
    """

    channels: float
    hours: float
    largest: float
    channel: int
    lost: float
    lost_channel: int
    channel_shift: Floats
    hour_shift: Floats


def compare_versions(
    old: tuple[Floats, Floats],
    new: tuple[Floats, Floats],
    important: float = 0.04,
) -> VersionShift:
    """Shares (p, h) of the same instances, in the same order, under two versions."""
    for before, now in zip(old, new, strict=True):
        if before.shape != now.shape:
            raise ValueError(
                f"Expected the same instances under both versions, but got {before.shape} and {now.shape}."
            )
    known = np.isfinite(old[0]).all(axis=1) & np.isfinite(new[0]).all(axis=1)
    if not known.any():
        raise ValueError("Expected at least one instance with a mask under both versions, but got none.")
    (p_old, h_old), (p_new, h_new) = ((p[known].mean(axis=0), h[known].mean(axis=0)) for p, h in (old, new))
    shift = p_new - p_old
    loss = np.where(p_old >= important, -shift / np.maximum(p_old, 1e-12), 0.0)
    return VersionShift(
        channels=total_variation(p_old, p_new),
        hours=total_variation(h_old, h_new),
        largest=float(np.abs(shift).max()),
        channel=int(np.abs(shift).argmax()),
        lost=float(max(loss.max(), 0.0)),
        lost_channel=int(loss.argmax()),
        channel_shift=shift,
        hour_shift=h_new - h_old,
    )
