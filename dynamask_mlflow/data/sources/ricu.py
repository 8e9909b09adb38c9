"""The layout of ricu and YAIB: `dyn` (stay, time, one column a concept), `sta` (one row a stay), `outc` (labels)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynamask_mlflow.data.clock import check_times, find_clock
from dynamask_mlflow.data.codes import CodeTable, flatten
from dynamask_mlflow.data.engine import Engine, quoted
from dynamask_mlflow.data.errors import DataError, Finding
from dynamask_mlflow.data.features import FeatureSet
from dynamask_mlflow.data.tables import LABEL, Column, FolderTables, Scan, scan_file

if TYPE_CHECKING:
    import pandas as pd

_ID = Column("stay_id", spellings=("icustay_id", "stayid", "patientunitstayid", "admissionid", "patientid"))
_TIME = Column("time", spellings=("charttime", "index_var"))
_STATIC = (
    _ID,
    Column("patient", spellings=("patient_id", "subject_id", "person_id"), required=False),
    Column("age", "DOUBLE", required=False),
    Column("sex", spellings=("gender",), required=False),
    Column("height", "DOUBLE", required=False),
    Column("weight", "DOUBLE", required=False),
)


@dataclass(frozen=True)
class Ricu:
    """A folder with `dyn`, `sta` and `outc` (Parquet or CSV), as YAIB's cohorts and ricu's exports have it.

    Times are hours or durations since admission. These tables have no calendar, hence there are no windows. Without a
    patient's id in `sta` every stay counts as a patient of its own.
    """

    path: Path
    clock: str = "auto"

    def __post_init__(self) -> None:
        self._tables.locate("dyn")

    @property
    def name(self) -> str:
        return "ricu"

    @property
    def _tables(self) -> FolderTables:
        return FolderTables(self.path)

    def describe(self) -> str:
        return f"ricu tables in {self.path}"

    def close(self) -> None:
        """Nothing is held open."""

    def stays(self, engine: Engine) -> tuple[pd.DataFrame, list[Finding]]:
        static = self._tables.scan(engine, "sta", _STATIC)
        label = Column("label", LABEL, required=False)
        hourly = Column("time", required=False, spellings=_TIME.spellings)
        outcome = self._tables.scan(engine, "outc", (_ID, label, hourly))
        if outcome.raw["time"] != "NULL":
            raise DataError(
                f"Expected one label a stay in outc of {self.path}, but it has a time: labels at every hour. Build a "
                "task with one label a stay, such as YAIB's mortality24."
            )
        if outcome.raw["label"] == "NULL":
            names = [row[0] for row in engine.rows(f"DESCRIBE SELECT * FROM {outcome.source}", "outc")]
            raise DataError(f"Expected a column label in outc of {self.path}, but it has only {', '.join(names)}.")
        frame = engine.frame(
            f"""
            SELECT s.stay_id, coalesce(s.patient, s.stay_id) AS patient_id, CAST(NULL AS TIMESTAMP) AS admitted,
                   CAST(NULL AS DOUBLE) AS los_hours, CAST(NULL AS DOUBLE) AS death_hours,
                   o.label AS died_hospital, o.label AS died_icu, s.age, s.sex AS gender,
                   CAST(NULL AS VARCHAR) AS ethnicity, CAST(NULL AS DOUBLE) AS first_stay,
                   CAST(NULL AS VARCHAR) AS "window", s.height, s.weight
            FROM ({static.select([c.name for c in _STATIC])}) s
            LEFT JOIN ({outcome.select(["stay_id", "label"])}) o USING (stay_id) ORDER BY s.stay_id
            """,
            "sta",
        )
        if static.raw["patient"] != "NULL":
            return frame, []
        message = "sta has no patient's id: every stay counts as a patient of its own, in the split and in audits."
        return frame, [Finding("note", "patient", "patient_id", len(frame), message)]

    def codes(self, engine: Engine, features: FeatureSet) -> tuple[CodeTable, list[Finding]]:
        table = flatten(features, {"variable": "dyn"})
        columns = self._concepts(engine)
        absent = [str(code) for code in table.codes if code not in columns]
        if len(absent) == len(table.codes):
            raise DataError(
                f"Expected concepts of {features.name} in dyn of {self.path}, but it has {', '.join(columns)}; "
                "--features names another feature set."
            )
        return table, []

    def events(self, engine: Engine, cohort: str, codes: CodeTable) -> Iterator[tuple[str, str]]:
        scan = self._dyn(engine)
        clock = find_clock(engine, self._tables.locate("dyn"), scan, self.clock, numbers="hours")
        present = [str(code) for code in codes.codes if code in self._concepts(engine)]
        listed = ", ".join(f"TRY_CAST({quoted(name)} AS DOUBLE) AS {quoted(name)}" for name in present)
        # Gaps of a wide table are no events.
        long = (
            f"SELECT id, time, code, value FROM (SELECT {scan.expressions['stay_id']} AS id, {scan.raw['time']} "
            f"AS time, {listed} FROM {scan.source}) UNPIVOT (value FOR code IN ({', '.join(map(quoted, present))}))"
        )
        events = (
            f"SELECT s.stay_row, {clock.expression} AS micros, e.code, e.value, CAST(NULL AS VARCHAR) AS unit, "
            f"s.stop - s.start AS length FROM ({long}) e JOIN {cohort} s ON s.stay_id = e.id"
        )
        check_times(engine, events, clock, f"dyn of {self.path}")
        yield "dyn", f"SELECT * FROM ({events}) WHERE micros IS NULL OR (micros >= 0 AND micros < length)"

    def _dyn(self, engine: Engine) -> Scan:
        return scan_file(engine, self._tables.locate("dyn"), (_ID, _TIME), "dyn")

    def _concepts(self, engine: Engine) -> list[str]:
        return [row[0] for row in engine.rows(f"DESCRIBE SELECT * FROM {self._dyn(engine).source}", "dyn")]
