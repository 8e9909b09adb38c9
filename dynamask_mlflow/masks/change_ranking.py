"""Which cells move the answer most, whichever way, when they are removed one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LOOKED_AT = 0.1


def change_ranking(
    attributions: NDArray[Any], deletion: NDArray[Any], margin: NDArray[Any] | None = None
) -> NDArray[np.float32]:
    """(N, T, d) in (0, 1]: one minus the share of cells that come before a cell.

    By the size of the attribution. But a sure class hardly moves while cells for it and against it take turns: its
    probability lies where the logistic curve is flat. Where the attributions themselves say so, the cells that speak
    for the answer come first, in the order of deletion, and the others after them by size.

    Args:
        attributions: (N, T, d) to the model's own answer: positive cells speak for it.
        deletion: (N, T, d) the same values in the order of deletion.
        margin: (N,) the score of the model's own answer, in logits; None for values.
    """
    signed = attributions.reshape(len(attributions), -1).astype(np.float64)
    size = np.abs(signed)
    order = np.argsort(-size, axis=1, kind="stable")
    if margin is not None:
        speaks_for = signed > 0
        after = np.where(speaks_for, deletion.reshape(size.shape), size)
        turning = np.lexsort((-after, ~speaks_for), axis=1)
        better = _movement(signed, turning, margin) > _movement(signed, order, margin)
        order = np.where(better[:, None], turning, order)
    places = np.empty(size.shape, dtype=np.float32)
    np.put_along_axis(places, order, 1 - np.arange(size.shape[1]) / size.shape[1], axis=1)
    return places.reshape(attributions.shape)


def _movement(signed: NDArray[Any], order: NDArray[Any], margin: NDArray[Any]) -> NDArray[np.float64]:
    """(N,): how far the probability would go, step by step, over the first tenth of the cells."""
    first = order[:, : max(1, round(_LOOKED_AT * order.shape[1]))]
    left = margin[:, None] - np.cumsum(np.take_along_axis(signed, first, axis=1), axis=1)
    probability = 0.5 * (1 + np.tanh(0.5 * np.concatenate([margin[:, None], left], axis=1)))
    moved: NDArray[np.float64] = np.abs(np.diff(probability, axis=1)).sum(1)
    return moved
