"""MIMIC-III and MIMIC-IV: official table and column names, in a folder or in Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamask_mlflow.data.codes import CodeTable, flatten
from dynamask_mlflow.data.engine import Engine, literal
from dynamask_mlflow.data.errors import DataError, Finding
from dynamask_mlflow.data.features import FeatureSet
from dynamask_mlflow.data.sources.base import within_stays
from dynamask_mlflow.data.tables import Column, Tables, load

if TYPE_CHECKING:
    import pandas as pd

_EVENTS = (
    Column("subject_id", "BIGINT"),
    Column("itemid", "BIGINT"),
    Column("charttime", "TIMESTAMP"),
    Column("storetime", "TIMESTAMP", required=False),
    Column("valuenum", "DOUBLE"),
    Column("valueuom", "VARCHAR", required=False),
    Column("error", "BIGINT", required=False),
)
_PLACES = (Column("first_careunit", required=False), Column("dbsource", required=False))
_ADMISSIONS = (
    Column("hadm_id", "BIGINT"),
    Column("deathtime", "TIMESTAMP"),
    Column("hospital_expire_flag", "BIGINT"),
    Column("ethnicity", "VARCHAR", spellings=("race",), required=False),
)
_PATIENTS = {
    "mimic3": (
        Column("subject_id", "BIGINT"),
        Column("gender"),
        Column("dob", "TIMESTAMP"),
    ),
    "mimic4": (
        Column("subject_id", "BIGINT"),
        Column("gender"),
        Column("anchor_age", "BIGINT"),
        Column("anchor_year", "BIGINT"),
        Column("anchor_year_group"),
    ),
}
# Age at admission, and what is shared across patients although the dates of each are shifted.
_AGE = {
    "mimic3": "date_sub('year', p.dob, i.intime)",
    "mimic4": "p.anchor_age + year(i.intime) - p.anchor_year",
}
_WINDOW = {"mimic3": "i.dbsource", "mimic4": "p.anchor_year_group"}


@dataclass(frozen=True)
class Mimic:
    """MIMIC-III (`release="mimic3"`) or MIMIC-IV (`"mimic4"`).

    Dates are shifted per patient, so windows go by `dbsource` or `anchor_year_group`; `one_calendar` says
    that the tables have the shape of MIMIC but one clock for all, and makes the month of admission the
    window.
    """

    tables: Tables
    release: str = "mimic3"
    one_calendar: bool = False

    @property
    def name(self) -> str:
        return "synthetic" if self.one_calendar else self.release

    def describe(self) -> str:
        return f"{self.name} in {self.tables.describe()}"

    def close(self) -> None:
        self.tables.close()

    def stays(self, engine: Engine) -> tuple[pd.DataFrame, list[Finding]]:
        stay_id = Column("stay_id", "BIGINT", spellings=("icustay_id",))
        ids = (Column("subject_id", "BIGINT"), Column("hadm_id", "BIGINT"), stay_id)
        times = (Column("intime", "TIMESTAMP"), Column("outtime", "TIMESTAMP"))
        icustays, found_i = load(engine, self.tables, "icustays", (*ids, *times, *_PLACES))
        admissions, found_a = load(engine, self.tables, "admissions", _ADMISSIONS)
        patients, found_p = load(engine, self.tables, "patients", _PATIENTS[self.release])
        for table, key in ((admissions, "hadm_id"), (patients, "subject_id")):
            (row,) = engine.rows(f"SELECT count(*) - count(DISTINCT {key}) FROM {table}", table)
            if row[0]:
                where = table.rsplit("_", 1)[0]
                raise DataError(f"Expected one row for each {key} in {where}, but {row[0]} are repeated.")
        window = "strftime(i.intime, '%Y-%m')" if self.one_calendar else _WINDOW[self.release]
        frame = engine.frame(
            f"""
            SELECT i.stay_id, i.subject_id AS patient_id, i.intime AS admitted,
                   (epoch_us(i.outtime) - epoch_us(i.intime)) / 3.6e9 AS los_hours,
                   (epoch_us(a.deathtime) - epoch_us(i.intime)) / 3.6e9 AS death_hours,
                   CAST(a.hospital_expire_flag AS DOUBLE) AS died_hospital,
                   CAST(coalesce(a.deathtime >= i.intime AND a.deathtime <= i.outtime, false) AS DOUBLE)
                       AS died_icu,
                   CAST({_AGE[self.release]} AS DOUBLE) AS age,
                   p.gender, a.ethnicity,
                   CAST(row_number() OVER (PARTITION BY i.subject_id ORDER BY i.intime, i.stay_id) = 1
                       AS DOUBLE) AS first_stay,
                   {window} AS "window", i.first_careunit AS unit, i.dbsource AS charting
            FROM {icustays} i
            LEFT JOIN {admissions} a USING (hadm_id)
            LEFT JOIN {patients} p ON p.subject_id = i.subject_id
            ORDER BY i.stay_id
            """,
            "icustays",
        )
        return frame, [*found_i, *found_a, *found_p]

    def codes(self, engine: Engine, features: FeatureSet) -> tuple[CodeTable, list[Finding]]:
        lists = {"lab": "labevents", "metavision": "chartevents"}
        if self.release == "mimic3":
            lists["carevue"] = "chartevents"
        return flatten(features, lists), []

    def events(self, engine: Engine, cohort: str, codes: CodeTable) -> Iterator[tuple[str, str]]:
        for table in ("labevents", "chartevents"):
            wanted = codes.of_table(table)
            if not wanted:
                continue
            scan = self.tables.scan(engine, table, _EVENTS, ("itemid", wanted))
            item, charted = scan.expressions["itemid"], scan.expressions["charttime"]
            # A lab counts when its result was available, where the table says when that was.
            time = charted if table == "chartevents" else f"coalesce({scan.expressions['storetime']}, {charted})"
            ids = ", ".join(literal(code) for code in wanted)
            select = (
                f"SELECT {scan.expressions['subject_id']} AS patient_id, {time} AS time, {item} AS code, "
                f"{scan.expressions['valuenum']} AS value, {scan.expressions['valueuom']} AS unit "
                f"FROM {scan.source} WHERE {item} IN ({ids}) AND coalesce({scan.expressions['error']}, 0) = 0"
            )
            yield table, within_stays(select, cohort)
