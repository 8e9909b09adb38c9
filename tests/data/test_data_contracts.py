"""What the door says about bad tables: an error or a warning that names the column and the count."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dynamask_mlflow.data import DataError, StayDataset, build, open_source
from dynamask_mlflow.data.contracts import check_splits

Tables = dict[str, pd.DataFrame]
Writer = Callable[..., str]


def _build(path: str) -> StayDataset:
    return build(open_source("mimic3", path))


def _finding(dataset: StayDataset, check: str, column: str) -> dict[str, object]:
    found = [f for f in dataset.report["findings"] if (f["check"], f["column"]) == (check, column)]
    assert found, [(f["check"], f["column"]) for f in dataset.report["findings"]]
    return dict(found[0])


def test_values_in_another_recorded_unit_are_counted_with_that_unit(tables: Tables, written: Writer) -> None:
    tables["LABEVENTS"].loc[:6, "valueuom"] = "umol/L"
    finding = _finding(_build(written(tables)), "unit", "CREATININE")
    assert (finding["level"], finding["count"]) == ("warning", 7)
    assert "'umol/L' x 7" in str(finding["message"])


def test_a_median_that_no_hospital_has_is_taken_for_a_wrong_unit(tables: Tables, written: Writer) -> None:
    tables["LABEVENTS"]["valuenum"] *= 88.4  # umol/L where mg/dL are meant, without saying so
    finding = _finding(_build(written(tables)), "unit", "CREATININE")
    assert "wrong unit?" in str(finding["message"])
    assert finding["count"] == 40


def test_fahrenheit_under_the_celsius_code_is_out_of_range_and_counted(tables: Tables, written: Writer) -> None:
    fever = tables["CHARTEVENTS"].assign(itemid=223762, valuenum=98.6, valueuom=None)
    tables["CHARTEVENTS"] = pd.concat([tables["CHARTEVENTS"], fever])
    finding = _finding(_build(written(tables)), "range", "Temp")
    assert (finding["level"], finding["count"]) == ("warning", 80)
    assert "80 too high" in str(finding["message"])


def test_negative_and_absurd_values_are_left_out_and_counted(tables: Tables, written: Writer) -> None:
    tables["CHARTEVENTS"].iloc[:3, tables["CHARTEVENTS"].columns.get_loc("valuenum")] = [-5.0, 0.0, 9999.0]
    dataset = _build(written(tables))
    finding = _finding(dataset, "range", "HeartRate")
    assert finding["count"] == 3
    assert "2 too low, 1 too high" in str(finding["message"])
    assert dataset.preprocessing.invert(dataset.x)[..., dataset.channel_names.index("HeartRate")].max() < 300


def test_a_channel_that_nobody_measured_is_unknown_and_constant(tables: Tables, written: Writer) -> None:
    dataset = _build(written(tables))
    assert _finding(dataset, "unknown code", "LACTATE")["count"] == 1
    assert _finding(dataset, "constant", "LACTATE")["count"] == 40


def test_a_duplicate_stay_is_an_error(tables: Tables, written: Writer) -> None:
    tables["ICUSTAYS"] = pd.concat([tables["ICUSTAYS"], tables["ICUSTAYS"].head(2)])
    with pytest.raises(DataError, match=r"one row for each stay_id, but that does not hold for 2 of 42"):
        _build(written(tables))


def test_a_duplicate_admission_is_an_error(tables: Tables, written: Writer) -> None:
    tables["ADMISSIONS"] = pd.concat([tables["ADMISSIONS"], tables["ADMISSIONS"].head(3)])
    with pytest.raises(DataError, match=r"one row for each hadm_id in admissions, but 3 are repeated"):
        _build(written(tables))


def test_a_label_that_is_neither_0_nor_1_is_an_error(tables: Tables, written: Writer) -> None:
    tables["ADMISSIONS"].loc[:1, "hospital_expire_flag"] = 7
    with pytest.raises(DataError, match=r"0 or 1 in died_hospital, but that does not hold for 2 of 40"):
        _build(written(tables))


def test_a_channel_that_records_the_outcome_is_a_leakage_warning(
    make_hospital: Callable[[int], Tables], written: Writer
) -> None:
    tables = make_hospital(100)
    dead = tables["ADMISSIONS"]["hospital_expire_flag"].to_numpy()
    tables["LABEVENTS"]["valuenum"] = np.where(dead == 1, 5.0, 1.0) + np.arange(100) / 1000
    finding = _finding(_build(written(tables)), "label leakage", "CREATININE")
    assert "AUROC 1.000" in str(finding["message"])


def test_a_patient_in_two_splits_is_an_error() -> None:
    (finding,) = check_splits(np.array([1, 1, 2]), np.array(["train", "test", "test"]))
    assert (finding.level, finding.column, finding.count) == ("error", "patient_id", 1)


def test_unreadable_times_of_events_are_counted_by_channel(tables: Tables, written: Writer) -> None:
    chart = tables["CHARTEVENTS"].reset_index(drop=True)
    chart["charttime"] = chart["charttime"].astype(str)
    chart.loc[:4, "charttime"] = "yesterday"
    tables["CHARTEVENTS"] = chart
    finding = _finding(_build(written(tables)), "unreadable", "HeartRate")
    assert finding["count"] == 5


def test_unreadable_admission_times_exclude_the_stay_and_are_counted(tables: Tables, written: Writer) -> None:
    tables["ICUSTAYS"]["intime"] = tables["ICUSTAYS"]["intime"].astype(str)
    tables["ICUSTAYS"].loc[:1, "intime"] = "31/31/2150"
    dataset = _build(written(tables))
    assert _finding(dataset, "unreadable", "icustays.intime")["count"] == 2
    assert len(dataset) == 38
    reasons = {e["reason"]: e["count"] for e in dataset.report["exclusions"]}
    assert reasons["the time of admission or discharge is missing"] == 2


def test_an_id_that_is_no_number_is_an_error(tables: Tables, written: Writer) -> None:
    tables["ICUSTAYS"]["subject_id"] = tables["ICUSTAYS"]["subject_id"].astype(str)
    tables["ICUSTAYS"].loc[0, "subject_id"] = "x"
    with pytest.raises(DataError, match=r"integers in icustays.subject_id, but 1 of 40"):
        _build(written(tables))


@pytest.mark.parametrize("table", ["ICUSTAYS", "ADMISSIONS", "PATIENTS", "CHARTEVENTS", "LABEVENTS"])
def test_a_missing_table_is_named(tables: Tables, written: Writer, table: str) -> None:
    del tables[table]
    with pytest.raises(DataError, match=f"Expected the table {table.lower()} "):
        _build(written(tables))


def test_missing_columns_are_named_with_those_that_are_there(tables: Tables, written: Writer) -> None:
    tables["CHARTEVENTS"] = tables["CHARTEVENTS"].drop(columns=["itemid", "valuenum"])
    with pytest.raises(DataError, match=r"columns itemid, valuenum in .*CHARTEVENTS.csv, but it has only subject_id"):
        _build(written(tables))


@pytest.mark.parametrize("content", [b"", b"subject_id,itemid,charttime,valuenum\n"])
def test_an_empty_file_is_named(tables: Tables, written: Writer, content: bytes) -> None:
    path = written(tables)
    Path(path, "CHARTEVENTS.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"CHARTEVENTS\.csv, but"):
        _build(path)


def test_a_truncated_gz_is_named(tables: Tables, written: Writer) -> None:
    path = Path(written(tables, ".csv.gz"))
    whole = (path / "CHARTEVENTS.csv.gz").read_bytes()
    (path / "CHARTEVENTS.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"Expected to read .*CHARTEVENTS"):
        _build(str(path))


def test_a_gz_truncated_far_behind_its_header_is_named_too(tables: Tables, written: Writer) -> None:
    many = pd.concat([tables["CHARTEVENTS"]] * 3000)
    many["valuenum"] = np.random.default_rng(0).normal(80, 10, len(many))
    tables["CHARTEVENTS"] = many
    path = Path(written(tables))
    text = (path / "CHARTEVENTS.csv").read_bytes()
    (path / "CHARTEVENTS.csv").unlink()
    packed = gzip.compress(text, 1)
    (path / "CHARTEVENTS.csv.gz").write_bytes(packed[:-2000])
    with pytest.raises(DataError, match=r"chartevents|CHARTEVENTS"):
        _build(str(path))


def test_a_broken_parquet_file_is_named(tables: Tables, written: Writer) -> None:
    path = Path(written(tables, ".parquet"))
    (path / "LABEVENTS.parquet").write_bytes((path / "LABEVENTS.parquet").read_bytes()[:100])
    with pytest.raises(DataError, match=r"LABEVENTS\.parquet"):
        _build(str(path))


def test_tables_without_one_code_of_the_set_are_an_error(tables: Tables, written: Writer) -> None:
    tables["CHARTEVENTS"]["itemid"] = tables["LABEVENTS"]["itemid"] = 1
    with pytest.raises(DataError, match="Expected events with one of the"):
        _build(written(tables))


def test_no_adult_is_an_error_with_the_counts(tables: Tables, written: Writer) -> None:
    tables["PATIENTS"]["dob"] = pd.Timestamp("2149-01-01")
    with pytest.raises(DataError, match="younger than 18: 40"):
        _build(written(tables))


def test_variables_of_a_feed_that_no_channel_uses_are_named(tmp_path: Path) -> None:
    pd.DataFrame(
        {"id": [1, 1, 2], "minute": [0, 1, 2], "variable": ["HR", "Pulse", "HR"], "value": [80, 81, 82]}
    ).to_csv(tmp_path / "e.csv", index=False)
    from dynamask_mlflow.data import BuildConfig

    dataset = build(
        open_source("long", str(tmp_path / "e.csv")),
        BuildConfig(features="physionet2012", shares=(1.0, 0.0, 0.0)),
    )
    finding = _finding(dataset, "unknown code", "variable")
    assert finding["count"] == 1
    assert "Pulse" in str(finding["message"])


def test_an_unknown_source_names_the_nearest() -> None:
    with pytest.raises(DataError, match="Did you mean 'mimic3'"):
        open_source("mimic_3", "nowhere")


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(DataError, match="Expected a folder of tables at /nowhere/at/all"):
        open_source("mimic3", "/nowhere/at/all")
