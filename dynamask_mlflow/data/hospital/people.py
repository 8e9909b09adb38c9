"""Who comes: patients, some of them more than once, with ages, units and charting systems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.hospital.config import START, HospitalConfig

ETHNICITIES = ("WHITE", "BLACK/AFRICAN AMERICAN", "HISPANIC OR LATINO", "ASIAN", "UNKNOWN/NOT SPECIFIED")
UNITS = ("MICU", "CCU", "SICU", "CSRU")
READMISSION = 0.07
# By arrivals of an intensive care unit over the hours of the day: few in the early morning, most in the
# afternoon.
ARRIVALS = np.array([3, 3, 2, 2, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 6, 6, 5, 4, 4, 3], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class People:
    """One row a stay, in order of admission. Ids look like MIMIC's: subject, hadm and icustay numbers."""

    subject: NDArray[np.int64]
    hadm: NDArray[np.int64]
    icustay: NDArray[np.int64]
    intime: NDArray[np.datetime64]
    month: NDArray[np.int64]
    age: NDArray[np.float64]
    male: NDArray[np.bool_]
    ethnicity: NDArray[np.int64]
    unit: NDArray[np.int64]
    metavision: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.subject)


def admit(config: HospitalConfig, rng: np.random.Generator) -> People:
    """Draw the admissions.

    Surgical units chart in CareVue, medical ones in MetaVision, in every month alike.
    """
    n = config.stays
    month_starts = START.astype("datetime64[M]") + np.arange(config.months + 1)
    days = (month_starts[1:].astype("datetime64[D]") - month_starts[:-1].astype("datetime64[D]")).astype(np.int64)
    month = np.sort(rng.integers(0, config.months, n))
    day = np.floor(rng.random(n) * days[month]).astype(np.int64)
    hour = rng.choice(24, size=n, p=ARRIVALS / ARRIVALS.sum())
    second = hour * 3600 + rng.integers(0, 3600, n)
    intime = month_starts[month].astype("datetime64[s]") + day * 86400 + second
    order = np.argsort(intime, kind="stable")
    intime, month = intime[order], month[order]

    # Some admissions bring back a patient who was here before, the more likely the more of them there are.
    owner = np.arange(n)
    returns = np.flatnonzero((rng.random(n) < READMISSION) & (np.arange(n) > 20))
    for stay in returns:
        earlier = int(rng.integers(0, stay))
        if (intime[stay] - intime[owner[earlier]]).astype(np.int64) > 40 * 86400:
            owner[stay] = owner[earlier]
    adult = np.clip(rng.normal(65, 16, n), 18, 97)
    age = np.where(rng.random(n) < 0.006, rng.uniform(14, 18, n), adult)
    unit = rng.choice(len(UNITS), size=n, p=[0.4, 0.2, 0.22, 0.18])
    years = (intime - intime[owner]).astype(np.int64) / (365.25 * 86400)
    return People(
        subject=20000 + owner,
        hadm=150000 + np.arange(n),
        icustay=250000 + np.arange(n),
        intime=intime,
        month=month,
        age=age[owner] + years,
        male=(rng.random(n) < 0.56)[owner],
        ethnicity=rng.choice(len(ETHNICITIES), size=n, p=[0.7, 0.1, 0.05, 0.04, 0.11])[owner],
        unit=unit,
        metavision=unit < 2,
    )
