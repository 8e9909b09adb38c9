"""Train, validation and test by patient: the stays of one patient are never separated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.errors import DataError

SPLITS = ("train", "validation", "test")
SHARES = (0.65, 0.15, 0.20)


def split_by_patient(
    patients: Sequence[Any] | NDArray[Any],
    labels: NDArray[np.float32],
    seed: int = 0,
    shares: tuple[float, float, float] = SHARES,
) -> NDArray[np.str_]:
    """The split of each stay.

    Patients are ranked by a hash of seed and id, so the order of the rows does not matter; those with and
    without an event are cut separately, so that every part has its share of events.
    """
    if min(shares) < 0 or abs(sum(shares) - 1) > 1e-9:
        raise DataError(f"Expected three shares that sum to 1, but got {shares}.")
    ids = np.asarray(patients)
    unique, inverse = np.unique(ids, return_inverse=True)
    died = np.zeros(len(unique), dtype=bool)
    np.logical_or.at(died, inverse, np.nan_to_num(np.asarray(labels, dtype=np.float64)) > 0)
    rank = np.array([hashlib.sha256(f"{seed}:{patient}".encode()).hexdigest() for patient in unique])
    part = np.empty(len(unique), dtype=np.int64)
    for event in (False, True):
        members = np.flatnonzero(died == event)
        members = members[np.argsort(rank[members])]
        cuts = np.rint(np.cumsum(shares) * len(members)).astype(np.int64)
        part[members] = np.searchsorted(cuts, np.arange(len(members)), side="right").clip(max=2)
    return np.asarray(SPLITS)[part[inverse]]
