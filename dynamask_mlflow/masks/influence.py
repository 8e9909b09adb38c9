"""Which cells move the answer most, whichever way, when they are removed one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LOOKED_AT = 0.1


def influence_order(
    worth: NDArray[Any], removal: NDArray[Any], margin: NDArray[Any] | None = None
) -> NDArray[np.float32]:
    """(N, T, d) in (0, 1]: one minus the share of cells that come before a cell.

    By the size of worth. But a sure class hardly moves while cells that speak for it and against it take turns: its
    probability lies where the logistic curve is flat. Where the worths themselves say so, the cells that speak for it
    come first, in the order of removal, and the others after them by size.

    Args:
        worth, removal: (N, T, d), see `Masks`.
        margin: (N,) how clearly the class was chosen, in logits; None for values.
    """
    w = worth.reshape(len(worth), -1).astype(np.float64)
    size = np.abs(w)
    order = np.argsort(-size, axis=1, kind="stable")
    if margin is not None:
        speaks_for = w > 0
        after = np.where(speaks_for, removal.reshape(w.shape), size)
        turning = np.lexsort((-after, ~speaks_for), axis=1)
        better = _movement(w, turning, margin) > _movement(w, order, margin)
        order = np.where(better[:, None], turning, order)
    places = np.empty(w.shape, dtype=np.float32)
    np.put_along_axis(places, order, 1 - np.arange(w.shape[1]) / w.shape[1], axis=1)
    return places.reshape(worth.shape)


def _movement(worth: NDArray[Any], order: NDArray[Any], margin: NDArray[Any]) -> NDArray[np.float64]:
    """(N,): how far the probability would go, step by step, over the first tenth of the cells."""
    first = order[:, : max(1, round(_LOOKED_AT * order.shape[1]))]
    left = margin[:, None] - np.cumsum(np.take_along_axis(worth, first, axis=1), axis=1)
    probability = 0.5 * (1 + np.tanh(0.5 * np.concatenate([margin[:, None], left], axis=1)))
    moved: NDArray[np.float64] = np.abs(np.diff(probability, axis=1)).sum(1)
    return moved
