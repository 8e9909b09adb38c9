"""The data arm: did the attention of a fixed model move between two windows, and where?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import Effect, moved_share, standard_error
from dynamask_mlflow.audit.statistics.marginals import Floats, Labels, in_blocks
from dynamask_mlflow.audit.statistics.multiplicity import step_down
from dynamask_mlflow.audit.statistics.permutation import (
    Permutations,
    energy_distances,
    mean_differences,
    upper_tail,
)


@dataclass(frozen=True, eq=False)
class DriftTest:
    """One comparison of two windows.

    Attributes:
        p_value: of the whole: min-p over the three statistics below, by shared permutations.
        p_energy, p_channels, p_hours: their own p-values.
        channels, hours: how much moved between channels and between hours.
        channel_shift (d,), hour_shift (T,): change of the mean shares, current minus reference.
        channel_error: (d,) standard errors of `channel_shift`, with patients as units.
        channel_p, hour_p: p-values adjusted over the channels and over the hours (step-down).
    """

    p_value: float
    p_energy: float
    p_channels: float
    p_hours: float
    channels: Effect
    hours: Effect
    channel_shift: Floats
    hour_shift: Floats
    channel_error: Floats
    channel_p: Floats
    hour_p: Floats


def drift_test(
    by_channel: Floats, by_time: Floats, labels: Labels, patients: NDArray[Any], block: int = 6
) -> DriftTest:
    """Test shares (n, d) and (n, T) of both windows together; `labels` come from `permuted_labels`.

    Three statistics see different changes: the energy distance on (p_i, h_i in blocks) sees changes of the
    distribution that leave its mean alone, and the largest |t| over channels, and over hours, sees one that
    moved. |t| is that of shares or of their square roots, whichever is larger: shares are skewed, and one that falls
    to nearly nothing in some of the stays shows in the roots first. The smallest of the three p-values is compared
    with its own permutation distribution.
    """
    gaps = {
        "channels": mean_differences(by_channel, labels),
        "hours": mean_differences(by_time, labels),
    }
    scaled = {name: np.abs(gap) / _scale(gap) for name, gap in gaps.items()}
    energy = energy_distances(np.concatenate([by_channel, in_blocks(by_time, block)], axis=1), labels)
    largest = [
        np.maximum(scaled[name].max(axis=1), _largest_root(shares, labels))
        for name, shares in (("channels", by_channel), ("hours", by_time))
    ]
    tails = np.stack([upper_tail(energy), *map(upper_tail, largest)], axis=1)
    least = tails.min(axis=1)
    current = labels[0] > 0
    return DriftTest(
        p_value=float(np.mean(least <= least[0] + 1e-12)),
        p_energy=float(tails[0, 0]),
        p_channels=float(tails[0, 1]),
        p_hours=float(tails[0, 2]),
        channels=moved_share(by_channel, labels, patients, gaps["channels"]),
        hours=moved_share(by_time, labels, patients, gaps["hours"]),
        channel_shift=gaps["channels"][0],
        hour_shift=gaps["hours"][0],
        channel_error=standard_error(by_channel, current, patients),
        channel_p=step_down(scaled["channels"]),
        hour_p=step_down(scaled["hours"]),
    )


def staged_drift_test(by_channel: Floats, by_time: Floats, draws: Permutations, block: int = 6) -> DriftTest:
    """`drift_test` by as many permutations as it needs."""
    return draws.staged(
        lambda labels: drift_test(by_channel, by_time, labels, draws.patients, block), lambda test: test.p_value
    )


def _largest_root(shares: Floats, labels: Labels) -> Floats:
    """(B,) the largest |t| over the square roots of (n, k) shares."""
    gaps = mean_differences(np.sqrt(np.maximum(shares, 0.0)), labels)
    return np.asarray((np.abs(gaps) / _scale(gaps)).max(axis=1))


def _scale(gaps: Floats) -> Floats:
    """Standard deviations over the permutations; a part that never has mass is left out of the maximum."""
    spread = gaps[1:].std(axis=0)
    return np.where(spread > 1e-12, spread, np.inf)
