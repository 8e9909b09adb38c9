"""How much moved: total variation between mean profiles, free of its bias, with honest bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.permutation import mean_differences, upper_tail

_Z95, Z975 = 1.6448536269514722, 1.959963984540054
_DRAWS = 1000


@dataclass(frozen=True)
class Effect:
    """Share of attention that moved.

    Attributes:
        observed: TV of the two mean profiles; never 0, even when nothing changed.
        moved: sqrt(max(0, TV^2 - E_perm TV^2)), which is 0 on average when nothing changed.
        low, high: 95 % confidence interval of the share moved.
        lower, upper: 95 % one-sided bounds. Where a test says that something moved, `lower` says how much at least;
            `upper`, below a tolerance, proves that nothing of weight moved.
    """

    observed: float
    moved: float
    low: float
    high: float
    lower: float
    upper: float


def total_variation(first: ArrayLike, second: ArrayLike) -> float:
    """TV = 1/2 sum_j |a_j - b_j|: the share of attention that would have to move to make a into b."""
    return float(0.5 * np.abs(np.asarray(first, float) - np.asarray(second, float)).sum())


def moved_share(values: Floats, labels: Labels, patients: NDArray[Any], differences: Floats | None = None) -> Effect:
    """The effect between the windows of labels[0], with the other rows as its null distribution.

    The bounds linearise TV at the observed signs s: TV = s'delta / 2, whose variance is that of the
    mean difference along s, by patient. A percentile bootstrap would never reach down to 0.
    """
    gaps = mean_differences(values, labels) if differences is None else differences
    each = 0.5 * np.abs(gaps).sum(axis=1)
    observed = float(each[0])
    moved = float(np.sqrt(max(0.0, observed**2 - float(np.mean(each[1:] ** 2)))))
    # Near 0 the linearisation is too sure of itself: what chance alone explains is not bounded away from 0.
    chance = float(upper_tail(each)[0])
    along = values @ np.sign(gaps[0])[:, None]
    spread = 0.5 * float(standard_error(along, labels[0] > 0, patients)[0])
    return Effect(
        observed=observed,
        moved=moved,
        low=max(0.0, moved - Z975 * spread) if chance <= 0.025 else 0.0,
        high=min(1.0, moved + Z975 * spread),
        lower=max(0.0, moved - _Z95 * spread),
        upper=min(1.0, moved + _Z95 * spread),
    )


def standard_error(values: Floats, current: Bools, patients: NDArray[Any]) -> Floats:
    """(k,) standard errors of the difference of means of values (n, k), with patients as units."""
    n_now, n_before = int(current.sum()), int((~current).sum())
    now, before = values[current].mean(axis=0), values[~current].mean(axis=0)
    pull = np.where(current[:, None], (values - now) / n_now, -(values - before) / n_before)
    each = by_patient(pull, patients)
    correction = len(each) / max(len(each) - 2, 1)
    return np.asarray(np.sqrt(correction * np.square(each).sum(axis=0)))


def by_patient(values: Floats, patients: NDArray[Any]) -> Floats:
    """(P, k) sums of values (n, k) over the stays of each patient."""
    names, code = np.unique(patients, return_inverse=True)
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, code, values)
    return sums


def provable_move(
    axes: Sequence[Floats], patients: NDArray[Any], stays: int, share: float = 0.975, seed: int = 0
) -> float:
    """The smallest move that a window of so many stays excludes, in this share of the windows, if nothing moved.

    That is a quantile of the larger `upper` over the axes. Chance differences between the reference (n, k) and such a
    window are normal with the covariance of the reference, patients as units: each patient's part in the mean is
    multiplied by one normal draw, the same on all axes.
    """
    number = len(np.unique(patients))
    draws = np.random.default_rng([seed, 0x70E]).standard_normal((_DRAWS, number))
    upper = np.zeros(_DRAWS)
    for values in axes:
        pull = by_patient((values - values.mean(axis=0)) / len(values), patients)
        pull *= np.sqrt((1 + len(values) / stays) * number / max(number - 1, 1))
        gaps = draws @ pull
        each = 0.5 * np.abs(gaps).sum(axis=1)
        moved = np.sqrt(np.maximum(0.0, each**2 - np.mean(each**2)))
        spread = 0.5 * np.linalg.norm(np.sign(gaps) @ pull.T, axis=1)
        upper = np.maximum(upper, moved + _Z95 * spread)
    return float(np.quantile(upper, share))
