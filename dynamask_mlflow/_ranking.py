"""Which cells come first: one rule for ties and one for rounding, wherever cells are chosen by score.

Of two cells with equal scores the earlier comes first, cells that do not count come after all others, and a share
`area` of n cells is floor(area n + 1/2) of them. `masks/ranking.py` has the same rule for tensors (`top_share`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def places(scores: NDArray[Any], where: NDArray[np.bool_] | None = None) -> NDArray[np.int32]:
    """The place of each cell along the last axis: 0 for the best.

    Args:
        scores: (..., n).
        where: (..., n) cells that count; None for all. The others come last.

    >>> places(np.array([0.1, 0.9, 0.9, 0.5])).tolist()
    [3, 0, 1, 2]
    """
    worst_last = -scores if where is None else np.where(where, -scores, np.inf)
    order = np.argsort(worst_last, axis=-1, kind="stable")
    place = np.empty(order.shape, dtype=np.int32)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(order.shape[-1], dtype=np.int32), order.shape), axis=-1)
    return place


def count_of(area: ArrayLike, cells: ArrayLike) -> NDArray[np.int64]:
    """How many of n cells a share is.

    >>> count_of(0.5, [3, 4]).tolist()
    [2, 2]
    """
    return np.asarray(np.floor(np.asarray(area) * np.asarray(cells) + 0.5), dtype=np.int64)
