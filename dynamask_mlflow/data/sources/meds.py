"""MEDS: the interchange format of medical events (subject_id, time, code, numeric_value), stays included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynamask_mlflow.data.codes import CodeTable, expand, flatten
from dynamask_mlflow.data.engine import Engine, literal
from dynamask_mlflow.data.errors import DataError, Finding
from dynamask_mlflow.data.features import FeatureSet
from dynamask_mlflow.data.sources.base import within_stays
from dynamask_mlflow.data.tables import Column, Scan, scan_file

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    Column("subject_id", "BIGINT"),
    Column("time", "TIMESTAMP"),
    Column("code"),
    Column("numeric_value", "DOUBLE"),
)
_LABELS = (
    Column("subject_id", "BIGINT"),
    Column("prediction_time", "TIMESTAMP"),
    Column("boolean_value", "BOOLEAN"),
)


@dataclass(frozen=True)
class Meds:
    """A MEDS folder (`data/**/*.parquet`). Stays run from ICU_ADMISSION to the subject's next ICU_DISCHARGE.

    MIMIC's itemids are found in codes such as `LAB//220045//bpm` or `LAB//RESULT//50912//mg/dL`; a feature
    set may also list codes of its own under `meds`, exact or as the beginning of a code. Dates may be shifted
    per subject, so there are windows only if `one_calendar` says that the clock is shared.

    With `labels` (a Parquet file or folder in MEDS's label schema, as ACES writes it: subject_id, prediction_time,
    boolean_value) every row of it is an instance: the hours up to its prediction time, and its label. No ICU events are
    needed then, so that eICU, OMOP or any other data in MEDS can be read, with a feature set that lists their codes.
    """

    path: Path
    one_calendar: bool = False
    labels: Path | None = None

    @property
    def name(self) -> str:
        return "meds"

    def describe(self) -> str:
        return f"meds in {self.path}"

    def close(self) -> None:
        """Nothing is held open."""

    def stays(self, engine: Engine) -> tuple[pd.DataFrame, list[Finding]]:
        if self.labels is not None:
            return self._labelled(engine, self.labels), []
        scan = self._scan(engine)
        marks = engine.new_name("marks")
        kinds = (
            "ICU_ADMISSION",
            "ICU_DISCHARGE",
            "HOSPITAL_DISCHARGE",
            "MEDS_BIRTH",
            "MEDS_DEATH",
            "GENDER",
            "RACE",
        )
        kept = ", ".join(literal(kind) for kind in kinds)
        engine.execute(
            f"CREATE TEMP TABLE {marks} AS SELECT * FROM (SELECT *, split_part(code, '//', 1) AS kind "
            f"FROM ({scan.select(['subject_id', 'time', 'code'])})) WHERE kind IN ({kept})",
            self.describe(),
        )
        window = "strftime(i.time, '%Y-%m')" if self.one_calendar else "CAST(NULL AS VARCHAR)"
        frame = engine.frame(
            f"""
            WITH i AS (
                SELECT subject_id, time,
                       (SELECT min(o.time) FROM {marks} o WHERE o.kind = 'ICU_DISCHARGE'
                           AND o.subject_id = a.subject_id AND o.time >= a.time) AS outtime,
                       (SELECT min(h.time) FROM {marks} h WHERE h.kind = 'HOSPITAL_DISCHARGE'
                           AND h.subject_id = a.subject_id AND h.time >= a.time) AS discharged
                FROM {marks} a WHERE kind = 'ICU_ADMISSION'
            ), p AS (
                SELECT subject_id,
                       min(time) FILTER (kind = 'MEDS_BIRTH') AS born,
                       min(time) FILTER (kind = 'MEDS_DEATH') AS died,
                       min(split_part(code, '//', 2)) FILTER (kind = 'GENDER') AS gender,
                       min(split_part(code, '//', 2)) FILTER (kind = 'RACE') AS ethnicity
                FROM {marks} GROUP BY subject_id
            )
            SELECT CAST(row_number() OVER (ORDER BY i.subject_id, i.time) AS BIGINT) AS stay_id,
                   i.subject_id AS patient_id, i.time AS admitted,
                   (epoch_us(i.outtime) - epoch_us(i.time)) / 3.6e9 AS los_hours,
                   (epoch_us(p.died) - epoch_us(i.time)) / 3.6e9 AS death_hours,
                   CAST(coalesce(p.died <= i.discharged, false) AS DOUBLE) AS died_hospital,
                   CAST(coalesce(p.died <= i.outtime, false) AS DOUBLE) AS died_icu,
                   CAST(date_sub('year', p.born, i.time) AS DOUBLE) AS age,
                   p.gender, p.ethnicity,
                   CAST(row_number() OVER (PARTITION BY i.subject_id ORDER BY i.time) = 1 AS DOUBLE)
                       AS first_stay,
                   {window} AS "window"
            FROM i LEFT JOIN p USING (subject_id) ORDER BY stay_id
            """,
            self.describe(),
        )
        if frame.empty:
            raise DataError(f"Expected ICU_ADMISSION events in {self.path}, but there are none.")
        return frame, []

    def codes(self, engine: Engine, features: FeatureSet) -> tuple[CodeTable, list[Finding]]:
        lists = ("lab", "carevue", "metavision", "meds")
        table = flatten(features, dict.fromkeys(lists, "data"))
        scan = self._scan(engine)
        names = [row[0] for row in engine.rows(f"SELECT DISTINCT code FROM ({scan.select(['code'])})", self.describe())]
        found: dict[int | str, list[str]] = {code: [] for code in table.codes}
        by_item: dict[str, list[str]] = {}
        for name in names:
            parts = str(name).split("//")
            if parts[0] == "LAB" and len(parts) > 1:
                item = parts[2] if parts[1] == "RESULT" and len(parts) > 2 else parts[1]
                by_item.setdefault(item, []).append(str(name))
        for code in found:
            if isinstance(code, int):
                found[code] = sorted(by_item.get(str(code), []))
            else:
                found[code] = sorted(n for n in names if n == code or str(n).startswith(f"{code}//"))
        absent = [code for code in found if not found[code]]
        note = Finding(
            "note",
            "unknown code",
            "code",
            len(absent),
            f"{len(absent)} of {len(found)} codes do not occur in {self.path}.",
        )
        return expand(table, found, "data"), [note] if absent else []

    def events(self, engine: Engine, cohort: str, codes: CodeTable) -> Iterator[tuple[str, str]]:
        scan = self._scan(engine)
        listed = ", ".join(literal(code) for code in codes.codes)
        unit = "CASE WHEN code LIKE 'LAB//%' THEN nullif(list_extract(string_split(code, '//'), -1), 'UNK') END"
        select = (
            f"SELECT subject_id AS patient_id, time, code, numeric_value AS value, {unit} AS unit "
            f"FROM ({scan.select([c.name for c in _COLUMNS])}) WHERE code IN ({listed})"
        )
        yield "data", within_stays(select, cohort)

    def _labelled(self, engine: Engine, path: Path) -> pd.DataFrame:
        """One row for each prediction of a label file, with the subject's age and sex at that time."""
        if not path.exists():
            raise DataError(f"Expected MEDS labels at {path}, but there are none.")
        labels = scan_file(engine, path, _LABELS, "labels")
        data = self._scan(engine)
        window = "strftime(l.prediction_time, '%Y-%m')" if self.one_calendar else "CAST(NULL AS VARCHAR)"
        return engine.frame(
            f"""
            WITH p AS (
                SELECT subject_id, min(time) FILTER (split_part(code, '//', 1) = 'MEDS_BIRTH') AS born,
                       min(time) FILTER (split_part(code, '//', 1) = 'MEDS_DEATH') AS died,
                       min(split_part(code, '//', 2)) FILTER (split_part(code, '//', 1) = 'GENDER') AS gender,
                       min(split_part(code, '//', 2)) FILTER (split_part(code, '//', 1) = 'RACE') AS ethnicity
                FROM ({data.select(["subject_id", "time", "code"])}) GROUP BY subject_id
            )
            SELECT CAST(row_number() OVER (ORDER BY l.subject_id, l.prediction_time) AS BIGINT) AS stay_id,
                   l.subject_id AS patient_id, CAST(NULL AS TIMESTAMP) AS admitted, CAST(NULL AS DOUBLE) AS los_hours,
                   CAST(NULL AS DOUBLE) AS death_hours, CAST(l.boolean_value AS DOUBLE) AS died_hospital,
                   CAST(l.boolean_value AS DOUBLE) AS died_icu,
                   CAST(date_sub('year', p.born, l.prediction_time) AS DOUBLE) AS age, p.gender, p.ethnicity,
                   CAST(row_number() OVER (PARTITION BY l.subject_id ORDER BY l.prediction_time) = 1 AS DOUBLE)
                       AS first_stay,
                   {window} AS "window", l.prediction_time AS predicted_at
            FROM ({labels.select([c.name for c in _LABELS])}) l LEFT JOIN p USING (subject_id) ORDER BY stay_id
            """,
            str(path),
        )

    def _scan(self, engine: Engine) -> Scan:
        data = self.path / "data"
        if not any(data.glob("**/*.parquet")):
            raise DataError(f"Expected a MEDS dataset with data/**/*.parquet in {self.path}, but there is none.")
        return scan_file(engine, data, _COLUMNS, label="data")
