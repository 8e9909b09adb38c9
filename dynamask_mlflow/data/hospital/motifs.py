"""What happens: planted deteriorations, which raise the risk only after hour 24, and look-alikes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.hospital.config import CHARTED_HOURS, HospitalConfig
from dynamask_mlflow.data.hospital.people import People

WINDOW = 48
LATE = 24
RAMP = 3.0  # hours from nothing to full size

# Motif -> signal -> change at severity 1. The first three are deteriorations, the others never matter.
MOTIFS = {
    "shock": {"MeanBP": -27.0, "PulsePressure": -11.0, "HeartRate": 30.0, "LACTATE": 4.5},
    "respiratory": {"SpO2": -9.0, "RespRate": 12.0},
    "renal": {"BUN": 36.0, "POTASSIUM": 1.8, "CREATININE": 2.4},
    "fever": {"Temp": 1.9},
    "hyperglycemia": {"Glucose": 150.0},
    "leukocytosis": {"WBC": 12.0},
    "thrombopenia": {"PLATELET": -110.0},
}
DETERIORATIONS = ("shock", "respiratory", "renal")
LOOK_ALIKES = ("fever", "hyperglycemia", "leukocytosis", "thrombopenia")
# Log-odds of death for a late motif of severity 1.
WEIGHTS = {"shock": 5.2, "respiratory": 4.8, "renal": 4.6}
WEIGHTS_AFTER_TREATMENT = {"shock": 5.2, "respiratory": 0.0, "renal": 6.0}
BASE_LOGIT = -4.3
AGE_PER_DECADE = 0.15


@dataclass(frozen=True, eq=False)
class Plan:
    """One row a planted motif."""

    stay: NDArray[np.int64]
    motif: NDArray[np.str_]
    start: NDArray[np.float64]
    stop: NDArray[np.float64]
    severity: NDArray[np.float64]

    @property
    def matters(self) -> NDArray[np.bool_]:
        """Deteriorations that begin after hour 24."""
        return np.isin(self.motif, DETERIORATIONS) & (self.start >= LATE)

    def envelope(self) -> NDArray[np.float64]:
        """(motifs, hours): up from 0 to 1 within `RAMP` hours of the start, down again before the stop."""
        hour = np.arange(CHARTED_HOURS)[None, :] + 0.5
        up = np.clip((hour - self.start[:, None]) / RAMP, 0, 1)
        down = np.clip((self.stop[:, None] - hour) / RAMP, 0, 1)
        return np.minimum(up, down)

    def active(self) -> NDArray[np.bool_]:
        """(motifs, hours): where a motif has reached a third of its size."""
        return np.asarray(self.envelope() >= 1 / 3)


def plant(people: People, rng: np.random.Generator) -> Plan:
    """Late deteriorations in about a quarter of the stays, early ones and look-alikes in as many and more."""
    n = len(people)
    parts = []

    def draw(chance: float, kinds: tuple[str, ...], start: tuple[float, float], length: tuple[float, float]) -> None:
        stay = np.flatnonzero(rng.random(n) < chance)
        motif = rng.choice(np.asarray(kinds), size=len(stay))
        begin = rng.uniform(*start, len(stay))
        parts.append((stay, motif, begin, begin + rng.uniform(*length, len(stay)), rng.uniform(0.75, 1.25, len(stay))))

    draw(0.20, DETERIORATIONS, (LATE, 38.0), (10.0, 22.0))
    draw(0.03, DETERIORATIONS, (LATE, 38.0), (10.0, 22.0))  # a second organ
    draw(0.22, DETERIORATIONS, (1.0, 11.0), (7.0, 11.5))
    for kind in LOOK_ALIKES:
        draw(0.09, (kind,), (2.0, 40.0), (8.0, 20.0))
    stay, motif, begin, stop, severity = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(stay, kind="stable")
    return Plan(stay[order], motif[order], begin[order], stop[order], severity[order])


def apply(plan: Plan, signals: dict[str, NDArray[np.float64]]) -> None:
    """Add every motif to the signals of its stay, in place."""
    size = plan.envelope() * plan.severity[:, None]
    for motif, changes in MOTIFS.items():
        rows = np.flatnonzero(plan.motif == motif)
        for signal, change in changes.items():
            np.add.at(signals[signal], plan.stay[rows], change * size[rows])


def log_odds(plan: Plan, people: People, config: HospitalConfig) -> NDArray[np.float64]:
    """The true log-odds of death after 48 h: base + age + the late deteriorations by their weights."""
    logit = BASE_LOGIT + AGE_PER_DECADE * (people.age - 65) / 10
    treated = config.touched("treatment", people.month)
    for motif in DETERIORATIONS:
        rows = np.flatnonzero(plan.matters & (plan.motif == motif))
        weight = np.where(treated[plan.stay[rows]], WEIGHTS_AFTER_TREATMENT[motif], WEIGHTS[motif])
        np.add.at(logit, plan.stay[rows], weight * plan.severity[rows])
    return logit
