"""Did the masks become harder to read, or less faithful? Area, entropy, CE, ACC: their means compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import Z975, standard_error
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import scaled, step_down
from dynamask_mlflow.audit.statistics.permutation import Permutations, mean_gaps
from dynamask_mlflow.audit.statistics.predictions import Shift


@dataclass(frozen=True, kw_only=True)
class ScaledShift(Shift):
    """A shift of means, with its size.

    Attributes:
        effect: the difference in standard deviations of the reference.
    """

    effect: float


def compare_means(
    values: Floats, current: Bools, patients: NDArray[Any], p_value: float, error: float | None = None
) -> ScaledShift:
    """Means of (n,) values of the reference and of the current window, where they are known (not NaN).

    Args:
        error: the standard error of their difference, if it is known.

    >>> values, current = np.array([1.0, 3.0, 4.0, 6.0, np.nan]), np.array([False, False, True, True, True])
    >>> shift = compare_means(values, current, np.arange(5), p_value=0.2)
    >>> shift.reference, shift.current, shift.effect
    (2.0, 5.0, 3.0)
    """
    known = np.isfinite(values)
    column, now = values[known][:, None], current[known]
    before, after = float(column[~now].mean()), float(column[now].mean())
    if error is None:
        error = float(standard_error(column, now, patients[known])[0])
    margin = Z975 * error
    spread = float(column[~now].std())
    return ScaledShift(
        reference=before,
        current=after,
        low=after - before - margin,
        high=after - before + margin,
        p_value=p_value,
        effect=(after - before) / spread if spread > 0 else 0.0,
    )


def quality_test(numbers: Mapping[str, Floats], labels: Labels, patients: NDArray[Any]) -> dict[str, ScaledShift]:
    """Compare the means of each (n,) number; those that are not finite everywhere count where they are."""
    compared = {}
    for name, column in numbers.items():
        known = np.isfinite(column)
        now = labels[0, known] > 0
        if known.any() and now.any() and not now.all():
            compared[name] = column
    if not compared:
        return {}
    p = step_down(scaled(mean_gaps(np.stack(list(compared.values()), axis=1), labels)))
    current = labels[0] > 0
    return {
        name: compare_means(column, current, patients, float(chance))
        for (name, column), chance in zip(compared.items(), p, strict=True)
    }


def staged_quality_test(numbers: Mapping[str, Floats], draws: Permutations) -> dict[str, ScaledShift]:
    """`quality_test` by as many permutations as it needs."""
    return draws.staged(
        lambda labels: quality_test(numbers, labels, draws.patients),
        lambda found: min((shift.p_value for shift in found.values()), default=1.0),
    )
