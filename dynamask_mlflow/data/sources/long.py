"""A generic long table (id, time, variable, value), as any hospital feed or PhysioNet 2012 has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dynamask_mlflow.data.codes import CodeTable, flatten
from dynamask_mlflow.data.engine import Engine, literal
from dynamask_mlflow.data.errors import DataError, Finding
from dynamask_mlflow.data.features import FeatureSet
from dynamask_mlflow.data.tables import Column, Scan, scan_file

if TYPE_CHECKING:
    import pandas as pd

# Names under which feeds call these columns; the first that occurs is taken unless `columns` says otherwise.
NAMES = {
    "id": ("stay_id", "id", "record_id", "recordid", "icustay_id", "encounter_id", "admission_id"),
    "time": ("minute", "minutes", "hour", "hours", "time", "charttime", "timestamp"),
    "variable": ("variable", "parameter", "code", "itemid", "name"),
    "value": ("value", "valuenum", "numeric_value"),
    "unit": ("unit", "valueuom", "uom"),
    "label": ("label", "died_hospital", "in-hospital_death", "hospital_expire_flag", "died"),
    "patient": ("patient_id", "subject_id", "person_id", "patient"),
    "admitted": ("admitted", "intime", "admittime", "admission_time"),
    "discharged": ("discharged", "outtime", "dischtime", "discharge_time"),
    "died": ("died_at", "deathtime", "death_time"),
    "died_icu": ("died_icu",),
    "age": ("age",),
    "gender": ("gender", "sex"),
    "ethnicity": ("ethnicity", "race"),
    "window": ("window", "period"),
}
_STAY_KEYS = (
    "patient",
    "label",
    "died_icu",
    "admitted",
    "discharged",
    "died",
    "age",
    "gender",
    "ethnicity",
    "window",
)
_STAY_TYPES = {
    "label": "DOUBLE",
    "died_icu": "DOUBLE",
    "age": "DOUBLE",
    "admitted": "TIMESTAMP",
    "discharged": "TIMESTAMP",
    "died": "TIMESTAMP",
}
CLOCKS = {"minutes": 60_000_000, "hours": 3_600_000_000}


@dataclass(frozen=True)
class LongTable:
    """Events in one file (or folder of Parquet) and, for labels and admissions, one row a stay in another.

    Attributes:
        path: the events.
        stays_path: the stays; windows are its column of that name, else the month of admission. Without it
            every id is a stay without a label, and times must be relative.
        columns: canonical name (`NAMES`) to the table's own, where guessing by name fails.
        clock: "minutes" or "hours" since admission, "timestamp", or "auto" to tell from the column.
    """

    path: Path
    stays_path: Path | None = None
    columns: dict[str, str] = field(default_factory=dict)
    clock: str = "auto"

    def __post_init__(self) -> None:
        for path in (self.path, self.stays_path):
            if path is not None and not path.exists():
                raise DataError(f"Expected a table at {path}, but there is none.")
        unknown = set(self.columns) - set(NAMES)
        if unknown:
            raise DataError(f"Expected columns among {', '.join(NAMES)}, but got {', '.join(sorted(unknown))}.")
        if self.clock not in ("auto", "timestamp", *CLOCKS):
            raise DataError(f"Expected clock to be auto, minutes, hours or timestamp, but got {self.clock!r}.")

    @property
    def name(self) -> str:
        return "long"

    def describe(self) -> str:
        return f"long table in {self.path}" + (f" with stays in {self.stays_path}" if self.stays_path else "")

    def close(self) -> None:
        """Nothing is held open."""

    def stays(self, engine: Engine) -> tuple[pd.DataFrame, list[Finding]]:
        if self.stays_path is None:
            scan = scan_file(engine, self.path, self._wanted(["id"]), "events")
            frame = engine.frame(f"SELECT DISTINCT id AS stay_id FROM ({scan.select(['id'])}) ORDER BY 1", "events")
            sql = "SELECT id, " + ", ".join(f"CAST(NULL AS {_STAY_TYPES.get(k, 'VARCHAR')}) AS {k}" for k in _STAY_KEYS)
            source = engine.register("ids", frame.rename(columns={"stay_id": "id"}))
            sql += f" FROM {source}"
        else:
            columns = self._wanted(["id"]) + self._wanted(_STAY_KEYS, required=False)
            scan = scan_file(engine, self.stays_path, columns, "stays")
            sql = scan.select(["id", *_STAY_KEYS])
        frame = engine.frame(
            f"""
            SELECT id AS stay_id, coalesce(patient, id) AS patient_id, admitted,
                   (epoch_us(discharged) - epoch_us(admitted)) / 3.6e9 AS los_hours,
                   (epoch_us(died) - epoch_us(admitted)) / 3.6e9 AS death_hours,
                   label AS died_hospital, died_icu, age, gender, ethnicity,
                   CAST(row_number() OVER (PARTITION BY coalesce(patient, id) ORDER BY admitted, id) = 1
                       AS DOUBLE) AS first_stay,
                   coalesce("window", strftime(admitted, '%Y-%m')) AS "window"
            FROM ({sql}) ORDER BY id
            """,
            "stays",
        )
        return frame, []

    def codes(self, engine: Engine, features: FeatureSet) -> tuple[CodeTable, list[Finding]]:
        table = flatten(features, {"variable": "events"})
        scan = self._scan(engine)
        counts = dict(engine.rows(f"SELECT variable, count(*) FROM ({scan.select(['variable'])}) GROUP BY 1", "events"))
        unknown = {name: count for name, count in counts.items() if name not in set(table.codes)}
        if not unknown:
            return table, []
        most = sorted(unknown, key=lambda name: -unknown[name])[:5]
        message = (
            f"{len(unknown)} variables ({sum(unknown.values())} rows) of {self.path} are in no channel of "
            f"{features.name}: {', '.join(map(str, most))}{', ...' if len(unknown) > 5 else ''}."
        )
        return table, [Finding("warning", "unknown code", "variable", sum(unknown.values()), message)]

    def events(self, engine: Engine, cohort: str, codes: CodeTable) -> Iterator[tuple[str, str]]:
        clock = self._clock(engine)
        time = "TIMESTAMP" if clock == "timestamp" else "DOUBLE"
        scan = self._scan(engine, time)
        listed = ", ".join(literal(code) for code in codes.codes)
        relative = (
            "epoch_us(e.time) - s.start" if clock == "timestamp" else f"CAST(floor(e.time * {CLOCKS[clock]}) AS BIGINT)"
        )
        select = scan.select(
            ["id", "time", "variable", "value", "unit"], f"{scan.expressions['variable']} IN ({listed})"
        )
        yield (
            "events",
            f"SELECT * FROM (SELECT s.stay_row, {relative} AS micros, e.variable AS code, e.value, e.unit, "
            f"s.stop - s.start AS length FROM ({select}) e JOIN {cohort} s ON s.stay_id = e.id) "
            "WHERE micros IS NULL OR (micros >= 0 AND micros < length)",
        )

    def _scan(self, engine: Engine, time: str = "VARCHAR") -> Scan:
        columns = self._wanted(["id", "time", "variable", "value"]) + self._wanted(["unit"], required=False)
        columns = [replace(c, type=time) if c.name == "time" else c for c in columns]
        return scan_file(engine, self.path, columns, "events")

    def _clock(self, engine: Engine) -> str:
        if self.clock != "auto":
            return self.clock
        scan = self._scan(engine)
        own = scan.raw["time"].strip('"').lower()
        (row,) = engine.rows(f"SELECT typeof({scan.raw['time']}) FROM {scan.source} LIMIT 1", "events")
        if "TIMESTAMP" in row[0] or (row[0] == "VARCHAR" and "minute" not in own and "hour" not in own):
            return "timestamp"
        for word, clock in (("minute", "minutes"), ("hour", "hours")):
            if word in own:
                return clock
        raise DataError(
            f"Expected clock to say what the numbers in column {own} count, minutes or hours, but got 'auto'."
        )

    def _wanted(self, keys: Sequence[str], required: bool = True) -> list[Column]:
        types = {**dict.fromkeys(NAMES, "VARCHAR"), "value": "DOUBLE", **_STAY_TYPES}
        return [Column(key, types[key], NAMES[key], required, own=self.columns.get(key, "")) for key in keys]
