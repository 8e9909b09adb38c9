"""Did the masks become harder to read, or less faithful? Area, entropy, CE, ACC: their means compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import standard_error
from dynamask_mlflow.audit.statistics.marginals import Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import holm
from dynamask_mlflow.audit.statistics.permutation import SETTLED, Permutations, mean_differences, upper_tail


@dataclass(frozen=True)
class QualityShift:
    """One number a stay, compared between the windows.

    Attributes:
        reference, current: means. low, high: 95 % confidence interval of their difference.
        effect: the difference in standard deviations of the reference.
        p_value: by permutation of patients, adjusted over the numbers compared (Holm).
    """

    reference: float
    current: float
    low: float
    high: float
    effect: float
    p_value: float


def quality_test(numbers: Mapping[str, Floats], labels: Labels, patients: NDArray[Any]) -> dict[str, QualityShift]:
    """Compare the means of each (n,) number; those that are not finite everywhere count where they are."""
    found: dict[str, QualityShift] = {}
    raw = []
    for name, column in numbers.items():
        known = np.isfinite(column)
        current = labels[0, known] > 0
        if not known.any() or current.all() or not current.any():
            continue
        values = column[known][:, None]
        some = labels if known.all() else labels[:, known]
        usable = (some.sum(axis=1) > 0) & (some.sum(axis=1) < some.shape[1])
        gaps = mean_differences(values, some if usable.all() else some[usable])[:, 0]
        before, now = float(values[~current].mean()), float(values[current].mean())
        error = float(standard_error(values, current, patients[known])[0])
        spread = float(values[~current].std())
        raw.append(float(upper_tail(np.abs(gaps))[0]))
        found[name] = QualityShift(
            reference=before,
            current=now,
            low=now - before - 1.96 * error,
            high=now - before + 1.96 * error,
            effect=(now - before) / spread if spread > 0 else 0.0,
            p_value=raw[-1],
        )
    adjusted = holm(raw)
    return {
        name: QualityShift(**{**vars(shift), "p_value": float(p)})
        for (name, shift), p in zip(found.items(), adjusted, strict=True)
    }


def staged_quality_test(numbers: Mapping[str, Floats], draws: Permutations) -> dict[str, QualityShift]:
    """The test with a few permutations, and with all of them if that leaves the matter open."""
    found = quality_test(numbers, draws.few, draws.patients)
    if all(shift.p_value > SETTLED for shift in found.values()):
        return found
    return quality_test(numbers, draws.all, draws.patients)
