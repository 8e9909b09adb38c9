"""The synthetic hospital in the shape of MIMIC-III: its table names, its columns, its itemids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.data.hospital.charting import LAB_CODES, VITAL_CODES, Rows
from dynamask_mlflow.data.hospital.outcome import Outcome
from dynamask_mlflow.data.hospital.people import ETHNICITIES, UNITS, People

if TYPE_CHECKING:
    import pyarrow as pa


def stay_tables(people: People, outcome: Outcome) -> dict[str, pa.Table]:
    """PATIENTS, ADMISSIONS and ICUSTAYS."""
    import pyarrow as pa

    n = len(people)
    second = np.timedelta64(1, "s")
    out = people.intime + (outcome.los_hours * 3600).astype(np.int64) * second
    discharged = people.intime + (outcome.hospital_hours * 3600).astype(np.int64) * second
    death = people.intime + (np.nan_to_num(outcome.death_hours) * 3600).astype(np.int64) * second
    death = np.where(outcome.died, death, np.datetime64("NaT", "s"))
    _, first = np.unique(people.subject, return_index=True)
    # Ages over 89 are hidden as MIMIC hides them: born 300 years before.
    shown = np.where(people.age[first] > 89, 300.0, people.age[first])
    born = (people.intime[first] - (shown * 365.25 * 86400).astype(np.int64) * second).astype("datetime64[D]")
    death_of = dict(zip(people.subject[outcome.died].tolist(), death[outcome.died], strict=True))
    dod = np.array([death_of.get(int(s), np.datetime64("NaT", "s")) for s in people.subject[first]], "datetime64[s]")
    return {
        "PATIENTS": pa.table(
            {
                "row_id": np.arange(len(first)),
                "subject_id": people.subject[first],
                "gender": np.where(people.male[first], "M", "F"),
                "dob": born.astype("datetime64[s]"),
                "dod": dod,
                "dod_hosp": dod,
                "dod_ssn": pa.nulls(len(first), pa.timestamp("s")),
                "expire_flag": (~np.isnat(dod)).astype(np.int64),
            }
        ),
        "ADMISSIONS": pa.table(
            {
                "row_id": np.arange(n),
                "subject_id": people.subject,
                "hadm_id": people.hadm,
                "admittime": people.intime - 3 * 3600 * second,
                "dischtime": discharged,
                "deathtime": death,
                "admission_type": np.where(people.unit == 3, "ELECTIVE", "EMERGENCY"),
                "ethnicity": np.asarray(ETHNICITIES)[people.ethnicity],
                "hospital_expire_flag": outcome.died.astype(np.int64),
                "has_chartevents_data": np.ones(n, dtype=np.int64),
            }
        ),
        "ICUSTAYS": pa.table(
            {
                "row_id": np.arange(n),
                "subject_id": people.subject,
                "hadm_id": people.hadm,
                "icustay_id": people.icustay,
                "dbsource": np.where(people.metavision, "metavision", "carevue"),
                "first_careunit": np.asarray(UNITS)[people.unit],
                "last_careunit": np.asarray(UNITS)[people.unit],
                "intime": people.intime,
                "outtime": out,
                "los": np.round(outcome.los_hours / 24, 4),
            }
        ),
    }


def event_table(people: People, rows: Rows, units: list[str], chart: bool, rng: np.random.Generator) -> pa.Table:
    """CHARTEVENTS or LABEVENTS, in order of stay and time."""
    import pyarrow as pa

    order = np.lexsort((rows.itemid, rows.second, rows.stay))
    stay, value = rows.stay[order], rows.value[order]
    time = people.intime[stay] + rows.second[order] * np.timedelta64(1, "s")
    unit = rows.unit[order]
    blank = unit == units.index("") if "" in units else np.zeros(len(unit), dtype=bool)
    unit_index = pa.array(unit, pa.int8(), mask=blank)
    columns: dict[str, Any] = {
        "row_id": np.arange(len(order)),
        "subject_id": people.subject[stay],
        "hadm_id": people.hadm[stay],
        "itemid": rows.itemid[order],
        "charttime": time,
        "valuenum": value,
        "valueuom": pa.DictionaryArray.from_arrays(unit_index, pa.array(units, pa.string())),
    }
    if chart:
        columns["icustay_id"] = people.icustay[stay]
        columns["storetime"] = time + rng.integers(60, 2400, len(order)) * np.timedelta64(1, "s")
        columns["error"] = rows.error[order]
    return pa.table(columns)


def dictionaries() -> dict[str, pa.Table]:
    """D_ITEMS and D_LABITEMS for the codes that occur."""
    import pyarrow as pa

    items = sorted(
        {(code, channel, system) for channel, (carevue, metavision, *_) in VITAL_CODES.items()
         for system, codes in (("carevue", carevue), ("metavision", metavision)) for code in codes}
    )  # fmt: skip
    ids, labels, systems = (list(column) for column in zip(*items, strict=True))
    labs = sorted((code, channel) for channel, (code, *_) in LAB_CODES.items())
    lab_ids, lab_labels = (list(column) for column in zip(*labs, strict=True))
    return {
        "D_ITEMS": pa.table(
            {"itemid": ids, "label": labels, "dbsource": systems, "linksto": ["chartevents"] * len(ids)}
        ),
        "D_LABITEMS": pa.table({"itemid": lab_ids, "label": lab_labels, "fluid": ["Blood"] * len(lab_ids)}),
    }


def write_table(table: pa.Table, folder: Path, name: str, suffix: str) -> None:
    """One file; CSV writes times as MIMIC does."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    if suffix == "parquet":
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        return
    plain = table.cast(pa.schema([(f.name, _plain(f.type)) for f in table.schema]))
    target = folder / f"{name}.{suffix}"
    with pa.output_stream(str(target), compression="gzip" if suffix == "csv.gz" else None) as stream:
        pc.write_csv(plain, stream)


def _plain(kind: Any) -> Any:
    import pyarrow as pa

    return pa.string() if pa.types.is_dictionary(kind) else kind


def hours_of(stays: NDArray[np.int64], flags: NDArray[np.bool_], n: int) -> NDArray[np.bool_]:
    """(n, hours): where any of the flags of a stay is set."""
    found = np.zeros((n, flags.shape[1]), dtype=bool)
    np.logical_or.at(found, stays, flags)
    return found
