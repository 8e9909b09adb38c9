"""Stored anchors, fitted again: with one model, one runtime and one seed nothing may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import total_variation
from dynamask_mlflow.audit.statistics.marginals import Floats


@dataclass(frozen=True)
class CanaryResult:
    """Attributes:
    moved: total variation between the channels' mean shares, then and now.
    moved_hours: the same for hours.
    identical: True if every mask is the same to the last bit.
    clean: moved and moved_hours are within the tolerance.
    """

    moved: float
    moved_hours: float
    identical: bool
    clean: bool


def compare_refit(
    stored: NDArray[np.floating[Any]],
    refitted: NDArray[np.floating[Any]],
    stored_shares: tuple[Floats, Floats],
    refitted_shares: tuple[Floats, Floats],
    tolerance: float = 0.005,
) -> CanaryResult:
    """Masks (n, T, d) and shares of the anchors as the reference holds them, and as fitted just now."""
    if stored.shape != refitted.shape:
        raise ValueError(f"Expected the anchors' masks of shape {stored.shape} again, but got {refitted.shape}.")
    gaps = [
        total_variation(np.nanmean(then, axis=0), np.nanmean(now, axis=0))
        for then, now in zip(stored_shares, refitted_shares, strict=True)
    ]
    return CanaryResult(
        moved=gaps[0],
        moved_hours=gaps[1],
        identical=bool(np.array_equal(stored, refitted)),
        clean=max(gaps) <= tolerance,
    )


def noise_floor(fits: Sequence[Floats]) -> dict[str, float]:
    """What the explainer's own randomness does: shares (n, k) of the same instances under several seeds.

    Returns:
        `moved`: mean TV between the mean profiles of two seeds; `variance_share`: the variance between seeds
        of one instance as a share of the variance between instances.
    """
    if len(fits) < 2:
        raise ValueError(f"Expected fits of at least two seeds, but got {len(fits)}.")
    stack = np.stack(fits)
    stack = stack[:, np.isfinite(stack).all(axis=(0, 2))]
    means = stack.mean(axis=1)
    pairs = [total_variation(means[i], means[j]) for i in range(len(means)) for j in range(i + 1, len(means))]
    between = float(stack.mean(axis=0).var(axis=0).sum())
    within = float(stack.var(axis=0, ddof=1).mean(axis=0).sum())
    return {"moved": float(np.mean(pairs)), "variance_share": within / between if between > 0 else 0.0}
