"""Where a change sits: the slice of the stays, or of their parts, inside which it is found and outside which it is not.

Each row is a stay, or a part of one (its night hours, what was charted under one code), with a score that moved. For a
slice the change inside is compared with the change outside: a fault that is everywhere changes both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import Z975
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats

LEAST = 15  # rows of each window inside a slice, and outside it
REST = 0.25  # of the change inside, what may be left outside
_DRAWS = 1999


@dataclass(frozen=True, eq=False)
class Rows:
    """n rows of both windows.

    Attributes:
        scores: (n,) finite. current: (n,) which window. patients: (n,) whose.
        slices: name -> (n,) which rows belong to it.
    """

    scores: Floats
    current: Bools
    patients: NDArray[Any]
    slices: Mapping[str, Bools]

    def within(self, chosen: Bools) -> Rows:
        return Rows(
            self.scores[chosen],
            self.current[chosen],
            self.patients[chosen],
            {name: member[chosen] for name, member in self.slices.items()},
        )


@dataclass(frozen=True)
class Slice:
    """One slice.

    Attributes:
        names: what it is called; several if they are the same rows.
        inside, outside: change of the mean score, current minus reference.
        low, high: 95 % confidence interval of their difference, with patients as units.
        z: the difference in standard errors. p_value: adjusted over all slices that were searched.
        share: of the current window's rows.
    """

    names: tuple[str, ...]
    inside: float
    outside: float
    low: float
    high: float
    z: float
    p_value: float
    share: float

    def explains(self, alpha: float, rest: float = REST) -> bool:
        """Whether the change is inside beyond chance, and next to nothing of it is outside."""
        return self.p_value <= alpha and abs(self.outside) <= rest * abs(self.inside)


def search_slices(rows: Rows, seed: int = 0, least: int = LEAST) -> list[Slice]:
    """All slices that are large enough, the clearest first.

    The chance of any false finding is controlled over all of them by a multiplier bootstrap of the largest |z|: each
    patient's pull on every difference is multiplied by one normal draw, so that slices that overlap are known to.
    """
    merged: dict[bytes, list[str]] = {}
    for name, member in rows.slices.items():
        cells = [
            int((member == inside)[rows.current == now].sum()) for inside in (True, False) for now in (True, False)
        ]
        if min(cells) >= least:
            merged.setdefault(np.packbits(member).tobytes(), []).append(name)
    if not merged:
        return []
    members = [rows.slices[names[0]] for names in merged.values()]
    changes = np.array([_changes(rows, member) for member in members])
    pulls = np.stack([_pulls(rows, member) for member in members], axis=1)
    errors = np.sqrt(np.square(pulls).sum(axis=0))
    errors = np.where(errors > 0, errors, np.inf)
    gaps = changes[:, 0] - changes[:, 1]
    z = gaps / errors
    draws = np.random.default_rng([seed, 0x51CE]).standard_normal((_DRAWS, len(pulls)))
    largest = np.abs(draws @ (pulls / errors)).max(axis=1)
    found = [
        Slice(
            names=tuple(names),
            inside=float(changes[i, 0]),
            outside=float(changes[i, 1]),
            low=float(gaps[i] - Z975 * errors[i]),
            high=float(gaps[i] + Z975 * errors[i]),
            z=float(z[i]),
            p_value=float((1 + (largest >= abs(z[i])).sum()) / (1 + len(largest))),
            share=float(members[i][rows.current].mean()),
        )
        for i, names in enumerate(merged.values())
    ]
    return sorted(found, key=lambda each: (-abs(each.z), each.share))


def smallest_slice(rows: Rows, alpha: float = 0.05, seed: int = 0) -> Slice | None:
    """The clearest slice that explains the change; None if it is everywhere, or not known."""
    return next((each for each in search_slices(rows, seed) if each.explains(alpha)), None)


def change_point(scores: Floats, days: Sequence[Any], alpha: float = 0.05, seed: int = 0) -> Any | None:
    """The day from which on the scores of a window's rows are others; None if they are the same throughout.

    Args:
        scores: (n,). days: (n,) comparable. The largest |t| over all days is compared with that of shuffled scores.
    """
    values, when = np.asarray(scores, dtype=np.float64), np.asarray(days)
    starts = np.unique(when)[1:]
    later = when[None, :] >= starts[:, None]
    counts = later.sum(axis=1)
    later = later[(counts >= LEAST) & (len(values) - counts >= LEAST)]
    starts = starts[(counts >= LEAST) & (len(values) - counts >= LEAST)]
    if not len(starts) or values.std() == 0:
        return None
    rng = np.random.default_rng([seed, 0xDA7E])
    shuffled = np.stack([values, *(rng.permutation(values) for _ in range(_DRAWS))])
    centred = (shuffled - values.mean()) / values.std()
    sizes = later.sum(axis=1)
    scale = np.sqrt(sizes * (1 - sizes / len(values)))
    statistics = np.abs(centred @ later.T) / scale
    best = statistics.max(axis=1)
    if (best >= best[0]).mean() > alpha:
        return None
    return starts[int(statistics[0].argmax())]


def _changes(rows: Rows, member: Bools) -> tuple[float, float]:
    inside, outside = (
        float(rows.scores[part & rows.current].mean() - rows.scores[part & ~rows.current].mean())
        for part in (member, ~member)
    )
    return inside, outside


def _pulls(rows: Rows, member: Bools) -> Floats:
    """(patients,) how each patient pulls on the difference between the changes inside and outside."""
    pull = np.zeros(len(rows.scores))
    for inside in (True, False):
        for now in (True, False):
            cell = (member == inside) & (rows.current == now)
            sign = 1.0 if inside == now else -1.0
            spread = rows.scores[cell] - rows.scores[cell].mean()
            pull[cell] = sign * spread / np.sqrt(cell.sum() * max(cell.sum() - 1, 1))
    _, code = np.unique(rows.patients, return_inverse=True)
    return np.asarray(np.bincount(code, weights=pull), dtype=np.float64)
