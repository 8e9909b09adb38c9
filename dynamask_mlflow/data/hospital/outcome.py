"""How it ends: who dies, when, and how long everybody stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.hospital.motifs import WINDOW

EARLY_DEATH = 0.025
DIES_IN_UNIT = 0.7


@dataclass(frozen=True, eq=False)
class Outcome:
    """One row a stay: true risk of death after the window, and what came of it (hours; NaN for survivors)."""

    risk: NDArray[np.float64]
    died: NDArray[np.bool_]
    death_hours: NDArray[np.float64]
    los_hours: NDArray[np.float64]
    hospital_hours: NDArray[np.float64]


def conclude(logit: NDArray[np.float64], rng: np.random.Generator) -> Outcome:
    """Death after the window with probability sigmoid(logit); some die or leave before."""
    n = len(logit)
    risk = 1 / (1 + np.exp(-logit))
    los = np.exp(rng.normal(np.log(3.6 * 24), 0.55, n)).clip(5, 1200)
    leaves = los < WINDOW
    early = rng.random(n) < EARLY_DEATH
    late = ~early & ~leaves & (rng.random(n) < risk)
    death = np.full(n, np.nan)
    death = np.where(early, rng.uniform(4, WINDOW - 0.5, n), death)
    death = np.where(late, WINDOW + 1 + rng.exponential(70, n), death)
    died = early | late
    in_unit = early | (rng.random(n) < DIES_IN_UNIT)
    before = WINDOW + 0.5 + rng.random(n) * (np.nan_to_num(death, nan=99.0) - WINDOW - 0.5)
    los = np.where(died, np.where(in_unit, death, before), los)
    stay_after = rng.exponential(90, n) + 4
    hospital = np.where(died, np.fmax(death, los), los + stay_after)
    return Outcome(risk, died, death, los, hospital)
