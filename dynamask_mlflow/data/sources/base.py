"""What every source yields: a table of stays and a stream of events, with the same columns everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from dynamask_mlflow.data.codes import CodeTable
from dynamask_mlflow.data.engine import Engine
from dynamask_mlflow.data.errors import Finding
from dynamask_mlflow.data.features import FeatureSet

if TYPE_CHECKING:
    import pandas as pd

# Columns of the table of stays. Hours count from the admission; unknown is NaN, NaT or None.
STAY_COLUMNS = {
    "stay_id": "one row each",
    "patient_id": "splits never separate the stays of a patient",
    "admitted": "time of admission, where there is a clock",
    "los_hours": "length of the stay in hours",
    "death_hours": "hours from admission to death",
    "died_hospital": "1 if the patient died in this hospital admission, else 0",
    "died_icu": "1 if the patient died in this ICU stay, else 0",
    "age": "years",
    "gender": "F or M",
    "ethnicity": "as recorded",
    "first_stay": "1 if this is the patient's first ICU stay, else 0",
    "window": "period for audits, where one clock or anchor is shared across patients",
    "predicted_at": "optional: the window is the hours before this time, not those after an admission",
    "unit": "ward, where it is known (may be absent)",
    "charting": "charting system, where it is known (may be absent)",
}
HOUR = 3_600_000_000  # microseconds


class Source(Protocol):
    """A hospital. `events` yields (label, SQL) pairs, to be consumed one after the other.

    Each SQL has the columns stay_row (position in the cohort), micros (microseconds since admission; NULL if
    the time cannot be read), code, value (NULL if not numeric) and unit (NULL if not recorded).
    """

    @property
    def name(self) -> str: ...

    def describe(self) -> str: ...

    def stays(self, engine: Engine) -> tuple[pd.DataFrame, list[Finding]]: ...

    def codes(self, engine: Engine, features: FeatureSet) -> tuple[CodeTable, list[Finding]]: ...

    def events(self, engine: Engine, cohort: str, codes: CodeTable) -> Iterator[tuple[str, str]]: ...

    def close(self) -> None: ...


def within_stays(events: str, cohort: str) -> str:
    """Attach events of a patient at a time to the stays of `cohort` (stay_row, patient_id, start, stop,
    first).

    Events of a cohort patient whose time cannot be read come out once, with NULL micros, to be counted.
    """
    return (
        "SELECT s.stay_row, epoch_us(e.time) - s.start AS micros, e.code, e.value, e.unit "
        f"FROM ({events}) e JOIN {cohort} s ON s.patient_id = e.patient_id AND "
        "((epoch_us(e.time) >= s.start AND epoch_us(e.time) < s.stop) OR (e.time IS NULL AND s.first))"
    )
