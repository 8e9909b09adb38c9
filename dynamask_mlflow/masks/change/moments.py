"""Times of a sequence: how many of its steps are known at a given time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Steps = NDArray[np.int64]


def known_steps(when: Any, name: str, times: Any, ends: Steps) -> Steps:
    """(N,): how many steps of each sequence are known at `when`.

    Args:
        when: a time for all sequences, or N of them. Without `times` it is a number of steps; a negative one counts
            from the end of the sequence. With `times` it is a time of the same kind, and the steps that begin
            before it are known.
        name: of the argument, for messages.
        times: (T,) or (N, T) times at which the steps begin, rising: numbers or timestamps.
        ends: (N,) how many steps each sequence has.
    """
    total = len(ends)
    wanted = np.asarray(when)
    if wanted.ndim > 1 or (wanted.ndim == 1 and len(wanted) != total):
        raise ValueError(f"Expected {name} to be one time, or one for each of {total}, but got {wanted.shape}.")
    if times is None:
        if wanted.dtype.kind not in "iu":
            raise ValueError(
                f"Expected {name} to be a number of steps, but got {when!r}. Pass `times` to give it as a time."
            )
        counted = np.broadcast_to(wanted.astype(np.int64), (total,))
        steps = np.where(counted < 0, ends + counted, counted)
    else:
        starts = np.asarray(times)
        starts = np.broadcast_to(starts, (total, starts.shape[-1]))
        if starts.dtype.kind not in "iuf":
            starts, wanted = _as_stamps(starts, "times"), _as_stamps(wanted, name)
        elif wanted.dtype.kind not in "iuf":
            raise ValueError(f"Expected {name} to be a number, as `times` are, but got {when!r}.")
        if starts.shape[1] and bool((starts[:, 1:] <= starts[:, :-1]).any()):
            raise ValueError("Expected times that rise from step to step, but they do not.")
        steps = (starts < np.broadcast_to(wanted, (total,))[:, None]).sum(1)
        steps = np.minimum(steps, ends)
    return np.asarray(steps, dtype=np.int64)


def check_moments(since: Steps, until: Steps, ends: Steps) -> None:
    """Both within the sequence, one after the other."""
    for row, (first, last, end) in enumerate(zip(since, until, ends, strict=True)):
        if not 1 <= first < last <= end:
            raise ValueError(
                "Expected at least one step before `since` and at least one between `since` and `until`, within "
                f"{end} steps, but instance {row} has {first} steps before `since` and {last} before `until`."
            )


def sequence_ends(lengths: Sequence[int] | NDArray[Any] | None, total: int, steps: int) -> Steps:
    """(N,): the lengths, or T each."""
    if lengths is None:
        return np.full(total, steps, dtype=np.int64)
    ends = np.asarray(lengths)
    if ends.shape != (total,) or ends.dtype.kind not in "iu" or bool((ends < 1).any() or (ends > steps).any()):
        raise ValueError(f"Expected {total} lengths in 1 .. {steps}, but got {ends.tolist()}.")
    return ends.astype(np.int64)


def _as_stamps(values: NDArray[Any], name: str) -> NDArray[Any]:
    try:
        return values.astype("datetime64[ns]")
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected {name} as numbers or timestamps, but got {values.ravel()[:1].tolist()}.") from error
