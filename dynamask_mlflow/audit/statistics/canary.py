"""Stored anchors, fitted again: with one model, one runtime and one seed nothing may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import total_variation
from dynamask_mlflow.audit.statistics.marginals import Floats

_UNKNOWN, _LEAST = 5e-4, 1e-4  # the limit where rounding was not measured, and the lowest one


@dataclass(frozen=True)
class CanaryResult:
    """Attributes:
    moved: total variation between the channels' mean shares, then and now.
    moved_hours: the same for hours.
    each: median over the anchors of the total variation of an anchor's own shares, of the axis that moved further.
        What goes one way in one anchor and another way in the next is lost in `moved`, but not here.
    limit: what `each` may be.
    identical: True if every mask is the same to the last bit.
    clean: all three are within what they may be.
    changed: what is recorded of model and runtime and differs: name -> (then, now); None: nothing is recorded.
    """

    moved: float
    moved_hours: float
    each: float
    limit: float
    identical: bool
    clean: bool
    changed: Mapping[str, tuple[str, str]] | None = None


def compare_refit(
    stored: NDArray[np.floating[Any]],
    refitted: NDArray[np.floating[Any]],
    stored_shares: tuple[Floats, Floats],
    refitted_shares: tuple[Floats, Floats],
    tolerance: float = 0.005,
    limit: float = _UNKNOWN,
    changed: Mapping[str, tuple[str, str]] | None = None,
) -> CanaryResult:
    """Masks (n, T, d) and shares of the anchors as the reference holds them, and as fitted just now.

    Args:
        tolerance: of the mean shares. limit: of each anchor's own, for instance some multiple of `rounding_noise`.
        changed: differences between the recorded models and runtimes. Other weights are never clean: a version is what
            it was, or it is another one.
    """
    if stored.shape != refitted.shape:
        raise ValueError(f"Expected the anchors' masks of shape {stored.shape} again, but got {refitted.shape}.")
    gaps = [
        total_variation(np.nanmean(then, axis=0), np.nanmean(now, axis=0))
        for then, now in zip(stored_shares, refitted_shares, strict=True)
    ]
    each = rounding_noise(stored_shares, refitted_shares)
    return CanaryResult(
        moved=gaps[0],
        moved_hours=gaps[1],
        each=each,
        limit=limit,
        identical=bool(np.array_equal(stored, refitted)),
        clean=max(gaps) <= tolerance and each <= limit and "weights" not in (changed or {}),
        changed=changed,
    )


def rounding_noise(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> float:
    """The median over the instances of how far an instance's own shares moved, on the axis that moved further."""
    each = [np.nanmedian(0.5 * np.abs(a - b).sum(axis=1)) for a, b in zip(first, second, strict=True)]
    return float(max(each))


def rounding_limit(noise: float | None, factor: float) -> float:
    """How far the median anchor may move: so many times as far as by rounding. None: that was never measured."""
    return _UNKNOWN if noise is None else max(factor * noise, _LEAST)


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
