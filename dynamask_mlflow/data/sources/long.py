"""A generic long table (id, time, variable, value), as any hospital feed or PhysioNet 2012 has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dynamask_mlflow.data.clock import CLOCKS, check_times, find_clock
from dynamask_mlflow.data.codes import CodeTable, flatten
from dynamask_mlflow.data.engine import Engine, literal, quoted
from dynamask_mlflow.data.errors import DataError, Finding
from dynamask_mlflow.data.features import FeatureSet
from dynamask_mlflow.data.tables import LABEL, Column, Scan, scan_file

if TYPE_CHECKING:
    import pandas as pd

# Names under which feeds call these columns; the first that occurs is taken unless `columns` says otherwise.
NAMES = {
    "id": ("stay_id", "id", "record_id", "recordid", "icustay_id", "encounter_id", "admission_id"),
    "time": ("minute", "minutes", "hour", "hours", "time", "charttime", "timestamp"),
    "variable": ("variable", "parameter", "code", "itemid", "name"),
    "value": ("value", "valuenum", "numeric_value"),
    "unit": ("unit", "valueuom", "uom"),
    "label": (
        "label",
        "died_hospital",
        "in-hospital_death",
        "in_hospital_mortality",
        "hospital_death",
        "hospital_expire_flag",
        "died",
        "mortality",
        "boolean_value",
    ),
    "patient": ("patient_id", "subject_id", "person_id", "patient"),
    "admitted": ("admitted", "intime", "admittime", "admission_time"),
    "discharged": ("discharged", "outtime", "dischtime", "discharge_time"),
    "died": ("died_at", "deathtime", "death_time"),
    "died_icu": ("died_icu",),
    "age": ("age",),
    "gender": ("gender", "sex"),
    "ethnicity": ("ethnicity", "race"),
    "window": ("window", "period"),
    "ward": ("ward", "careunit", "first_careunit", "icu_type", "icutype"),
    "charting": ("charting", "dbsource", "charting_system"),
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
    "ward",
    "charting",
)
_STAY_TYPES = {
    "label": LABEL,
    "died_icu": LABEL,
    "age": "DOUBLE",
    "admitted": "TIMESTAMP",
    "discharged": "TIMESTAMP",
    "died": "TIMESTAMP",
}


@dataclass(frozen=True)
class LongTable:
    """Events in one file (or folder of Parquet) and, for labels and admissions, one row a stay in another.

    Attributes:
        path: the events.
        stays_path: the stays; windows are its column of that name, else the month of admission. Without it
            every id is a stay without a label, and times must be relative.
        columns: canonical name (`NAMES`) to the table's own, where guessing by name fails.
        clock: what the numbers of a time column count ("seconds", "minutes", "hours", "days"), "duration" (HH:MM, or a
            column of durations), "timestamp", or "auto" to tell from the column. Timestamps apart, since admission.
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
        if self.clock not in CLOCKS:
            raise DataError(f"Expected clock to be one of {', '.join(CLOCKS)}, but got {self.clock!r}.")

    @property
    def name(self) -> str:
        return "long"

    def describe(self) -> str:
        return f"long table in {self.path}" + (f" with stays in {self.stays_path}" if self.stays_path else "")

    def close(self) -> None:
        """Nothing is held open."""

    def stays(self, engine: Engine) -> tuple[pd.DataFrame, list[Finding]]:
        findings: list[Finding] = []
        if self.stays_path is None:
            scan = scan_file(engine, self.path, self._wanted(["id"]), "events")
            frame = engine.frame(f"SELECT DISTINCT id AS stay_id FROM ({scan.select(['id'])}) ORDER BY 1", "events")
            types = {**_STAY_TYPES, "label": "DOUBLE", "died_icu": "DOUBLE"}
            sql = "SELECT id, " + ", ".join(f"CAST(NULL AS {types.get(k, 'VARCHAR')}) AS {k}" for k in _STAY_KEYS)
            source = engine.register("ids", frame.rename(columns={"stay_id": "id"}))
            sql += f" FROM {source}"
        else:
            columns = self._wanted(["id"]) + self._wanted(_STAY_KEYS, required=False)
            scan = scan_file(engine, self.stays_path, columns, "stays")
            sql = scan.select(["id", *_STAY_KEYS])
            if scan.raw["label"] == "NULL":
                findings.append(self._no_label(engine))
        frame = engine.frame(
            f"""
            SELECT id AS stay_id, coalesce(patient, id) AS patient_id, admitted,
                   (epoch_us(discharged) - epoch_us(admitted)) / 3.6e9 AS los_hours,
                   (epoch_us(died) - epoch_us(admitted)) / 3.6e9 AS death_hours,
                   label AS died_hospital, died_icu, age, gender, ethnicity,
                   CAST(row_number() OVER (PARTITION BY coalesce(patient, id) ORDER BY admitted, id) = 1
                       AS DOUBLE) AS first_stay,
                   coalesce("window", strftime(admitted, '%Y-%m')) AS "window", ward AS unit, charting
            FROM ({sql}) ORDER BY id
            """,
            "stays",
        )
        return frame, findings

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
        scan = self._scan(engine)
        clock = find_clock(engine, self.path, scan, self.clock)
        listed = ", ".join(literal(code) for code in codes.codes)
        columns = ", ".join(f"{scan.expressions[name]} AS {name}" for name in ("id", "variable", "value", "unit"))
        chosen = (
            f"SELECT {columns}, {scan.raw['time']} AS time FROM {scan.source} "
            f"WHERE {scan.expressions['variable']} IN ({listed})"
        )
        micros = f"{clock.expression} - s.start" if clock.absolute else clock.expression
        events = (
            f"SELECT s.stay_row, {micros} AS micros, e.variable AS code, e.value, e.unit, s.stop - s.start AS length "
            f"FROM ({chosen}) e JOIN {cohort} s ON s.stay_id = e.id"
        )
        check_times(engine, events, clock, str(self.path))
        yield "events", f"SELECT * FROM ({events}) WHERE micros IS NULL OR (micros >= 0 AND micros < length)"

    def _no_label(self, engine: Engine) -> Finding:
        """Names the columns that could hold the label: those with two values."""
        described = scan_file(engine, Path(str(self.stays_path)), (), "stays")
        names = [row[0] for row in engine.rows(f"DESCRIBE SELECT * FROM {described.source}", "stays")]
        counted = ", ".join(f"count(DISTINCT {quoted(name)})" for name in names)
        (counts,) = engine.rows(f"SELECT {counted} FROM {described.source}", "stays")
        binary = [name for name, count in zip(names, counts, strict=True) if count == 2]
        could = f" ({', '.join(binary)} have two values)" if binary else ""
        message = (
            f"Expected a label in one of the columns {', '.join(NAMES['label'])} of {self.stays_path}, but it has "
            f"{', '.join(names)}{could}; name it with --column label=NAME."
        )
        return Finding("warning", "label", "label", len(names), message)

    def _scan(self, engine: Engine) -> Scan:
        columns = self._wanted(["id", "time", "variable", "value"]) + self._wanted(["unit"], required=False)
        return scan_file(engine, self.path, columns, "events")

    def _wanted(self, keys: Sequence[str], required: bool = True) -> list[Column]:
        types = {**dict.fromkeys(NAMES, "VARCHAR"), "value": "DOUBLE", **_STAY_TYPES}
        return [Column(key, types[key], NAMES[key], required, own=self.columns.get(key, "")) for key in keys]
