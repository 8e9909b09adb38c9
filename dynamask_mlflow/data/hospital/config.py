"""What the synthetic hospital is made of: its size, its seed, and the calendar of what goes wrong in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dynamask_mlflow.data.errors import DataError

START = np.datetime64("2023-01-01T00:00:00")
CHARTED_HOURS = 72  # what is charted of a longer stay


@dataclass(frozen=True)
class Drift:
    """Something that changes in the hospital from a month on (counted from 0), for a while or for good."""

    name: str
    first_month: int
    last_month: int | None
    what: str

    def active(self, month: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of the stays, admitted in `month`, it touches."""
        last = np.inf if self.last_month is None else self.last_month
        return np.asarray((month >= self.first_month) & (month <= last))


CALENDAR = (
    Drift("lactate_assay", 12, None, "a new assay reads lactate 1 mmol/L higher"),
    Drift("spo2_charting", 15, None, "every second SpO2 is no longer charted"),
    Drift("treatment", 18, None, "respiratory failure no longer raises the risk, renal failure raises it more"),
    Drift("fahrenheit", 20, 20, "temperatures are entered in Fahrenheit under the Celsius code"),
)


@dataclass(frozen=True, kw_only=True)
class HospitalConfig:
    """Settings of `synthesize`. The same settings give the same tables, byte for byte.

    Attributes:
        stays: number of ICU stays.
        months: over which admissions are spread, from January 2023.
        seed: of every draw.
        drift: False leaves the calendar of changes out.
        format: "parquet", "csv" or "csv.gz".
    """

    stays: int = 4000
    months: int = 24
    seed: int = 0
    drift: bool = True
    format: str = "parquet"

    def __post_init__(self) -> None:
        if self.stays < 1:
            raise DataError(f"Expected at least 1 stay, but got {self.stays}.")
        if not 1 <= self.months <= 120:
            raise DataError(f"Expected 1 to 120 months, but got {self.months}.")
        if self.format not in ("parquet", "csv", "csv.gz"):
            raise DataError(f"Expected format to be parquet, csv or csv.gz, but got {self.format!r}.")

    @property
    def calendar(self) -> tuple[Drift, ...]:
        return tuple(d for d in CALENDAR if d.first_month < self.months) if self.drift else ()

    def touched(self, name: str, month: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which stays, by month of admission, the change called `name` touches."""
        for drift in self.calendar:
            if drift.name == name:
                return drift.active(month)
        return np.zeros(len(month), dtype=bool)
