"""Did the masks become harder to read, or less faithful? Area, entropy, CE, ACC: their means compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import standard_error
from dynamask_mlflow.audit.statistics.marginals import Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import scaled, step_down
from dynamask_mlflow.audit.statistics.permutation import SETTLED, Permutations, mean_gaps


@dataclass(frozen=True)
class QualityShift:
    """One number a stay, compared between the windows.

    Attributes:
        reference, current: means. low, high: 95 % confidence interval of their difference.
        effect: the difference in standard deviations of the reference.
        p_value: by permutation of patients, adjusted over the numbers compared (step-down).
    """

    reference: float
    current: float
    low: float
    high: float
    effect: float
    p_value: float


def quality_test(numbers: Mapping[str, Floats], labels: Labels, patients: NDArray[Any]) -> dict[str, QualityShift]:
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
    found: dict[str, QualityShift] = {}
    for place, (name, column) in enumerate(compared.items()):
        known = np.isfinite(column)
        values, current = column[known][:, None], labels[0, known] > 0
        before, now = float(values[~current].mean()), float(values[current].mean())
        error = float(standard_error(values, current, patients[known])[0])
        spread = float(values[~current].std())
        found[name] = QualityShift(
            reference=before,
            current=now,
            low=now - before - 1.96 * error,
            high=now - before + 1.96 * error,
            effect=(now - before) / spread if spread > 0 else 0.0,
            p_value=float(p[place]),
        )
    return found


def staged_quality_test(numbers: Mapping[str, Floats], draws: Permutations) -> dict[str, QualityShift]:
    """The test with a few permutations, and with all of them if that leaves the matter open."""
    found = quality_test(numbers, draws.few, draws.patients)
    if all(shift.p_value > SETTLED for shift in found.values()):
        return found
    return quality_test(numbers, draws.all, draws.patients)
