"""Which stays count: adults whose stay covers the whole window, with every exclusion counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dynamask_mlflow.data.errors import DataError, Finding

if TYPE_CHECKING:
    import pandas as pd

LABELS = {"hospital": "died_hospital", "icu": "died_icu"}
MINIMUM_AGE = 18
# Ages over 89 are hidden in MIMIC (recorded as 300 or as 91); all of them count as this one.
AGE_CAP = 90


@dataclass(frozen=True)
class Exclusion:
    """How many stays were left out for one reason."""

    reason: str
    count: int


def select_cohort(
    stays: pd.DataFrame, hours: int, label: str, drop_contradictory_deaths: bool = False
) -> tuple[pd.DataFrame, list[Exclusion], list[Finding]]:
    """Adults who stay at least `hours`, with the column `label` added; who dies earlier also stays shorter.

    A recorded death inside the window of a stay that is charted beyond it is a contradiction: kept with a
    warning, or dropped if asked for.
    """
    if label not in LABELS:
        raise DataError(f"Expected label to be one of {', '.join(LABELS)}, but got {label!r}.")
    short = stays["los_hours"] < hours
    died_early = stays["death_hours"] < hours
    age = stays["age"].where(stays["age"] >= 0)  # -1 is how some tables write a missing one
    clocked = bool(stays["los_hours"].notna().any())
    rules = [
        ("the time of admission or discharge is missing", stays["los_hours"].isna() & clocked),
        (f"younger than {MINIMUM_AGE}", age < MINIMUM_AGE),
        (f"died within {hours} h", short & died_early),
        (f"left the unit within {hours} h", short & ~died_early),
    ]
    contradictory = ~short & died_early & (stays["death_hours"] >= 0)
    if drop_contradictory_deaths:
        rules.append((f"death recorded within {hours} h of a longer stay", contradictory))
    kept = np.ones(len(stays), dtype=bool)
    exclusions = []
    for reason, broken in rules:
        now = kept & broken.to_numpy(dtype=bool)
        exclusions.append(Exclusion(reason, int(now.sum())))
        kept &= ~now
    if not kept.any():
        counts = "; ".join(f"{e.reason}: {e.count}" for e in exclusions if e.count)
        raise DataError(f"Expected stays of adults of at least {hours} h, but none of {len(stays)} is left ({counts}).")
    cohort = stays.assign(age=age.clip(upper=AGE_CAP))[kept].reset_index(drop=True)
    cohort["label"] = cohort[LABELS[label]].astype(np.float32)
    return cohort, exclusions, _leaks(cohort, hours)


def _leaks(cohort: pd.DataFrame, hours: int) -> list[Finding]:
    early = cohort["death_hours"] < hours
    count = int(early.sum())
    if not count:
        return []
    named = ", ".join(str(stay) for stay in cohort["stay_id"][early][:5]) + (", ..." if count > 5 else "")
    message = (
        f"Expected deaths after the first {hours} h, but death_hours of {count} of {len(cohort)} stays lies "
        f"before, although the stay goes on: the label may leak into the window (stays {named})."
    )
    return [Finding("warning", "label leakage", "death_hours", count, message)]
