"""The synthetic hospital: what was planted is there, where the truth says, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynamask_mlflow.data import BuildConfig, DataError, StayDataset, build, open_source
from dynamask_mlflow.data.hospital import HospitalConfig, Truth, load_truth, synthesize
from dynamask_mlflow.data.hospital.motifs import DETERIORATIONS
from dynamask_mlflow.metrics import auroc


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthesize(tmp_path_factory.mktemp("hospital") / "h", HospitalConfig(stays=2400, seed=3))


@pytest.fixture(scope="module")
def truth(folder: Path) -> Truth:
    return load_truth(folder)


@pytest.fixture(scope="module")
def dataset(folder: Path) -> StayDataset:
    return build(open_source("synthetic", str(folder)))


def _raw(dataset: StayDataset, channel: str) -> np.ndarray:
    index = dataset.channel_names.index(channel)
    values = dataset.preprocessing.invert(dataset.x)[..., index]
    return np.where(dataset.observed[..., index], values, np.nan)


def _months(dataset: StayDataset) -> np.ndarray:
    return (dataset.admitted.astype("datetime64[M]") - np.datetime64("2023-01")).astype(int)


def test_tables_have_the_names_and_columns_of_mimic_iii(folder: Path) -> None:
    expected = {
        "PATIENTS": {"subject_id", "gender", "dob", "dod", "expire_flag"},
        "ADMISSIONS": {
            "subject_id",
            "hadm_id",
            "admittime",
            "deathtime",
            "ethnicity",
            "hospital_expire_flag",
        },
        "ICUSTAYS": {"subject_id", "hadm_id", "icustay_id", "dbsource", "intime", "outtime", "los"},
        "CHARTEVENTS": {"icustay_id", "itemid", "charttime", "valuenum", "valueuom", "error"},
        "LABEVENTS": {"subject_id", "itemid", "charttime", "valuenum", "valueuom"},
        "D_ITEMS": {"itemid", "label", "dbsource"},
        "D_LABITEMS": {"itemid", "label"},
    }
    for name, columns in expected.items():
        assert columns <= set(pq.read_schema(folder / f"{name}.parquet").names)
    systems = pq.read_table(folder / "ICUSTAYS.parquet", columns=["dbsource"])["dbsource"].to_pylist()
    assert 0.25 < systems.count("carevue") / len(systems) < 0.75


def test_the_same_seed_gives_the_same_hospital_and_another_another(tmp_path: Path) -> None:
    digests = [
        build(open_source("synthetic", str(synthesize(tmp_path / f"{i}", HospitalConfig(stays=200, seed=seed))))).digest
        for i, seed in enumerate((7, 7, 8))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_gaps_are_those_of_an_intensive_care_unit(dataset: StayDataset) -> None:
    before = dataset.select(_months(dataset) < 12)
    missing = dict(zip(before.channel_names, 1 - before.observed.mean(axis=(0, 1)), strict=True))
    for vital in ("HeartRate", "SysBP", "MeanBP", "RespRate", "SpO2"):
        assert 0.05 < missing[vital] < 0.15
    assert 0.6 < missing["Temp"] < 0.8
    assert 0.7 < missing["Glucose"] < 0.9
    for lab in ("SODIUM", "CREATININE", "WBC", "LACTATE", "ALBUMIN"):
        assert 0.88 < missing[lab] < 0.99


def test_readings_are_those_of_living_people(dataset: StayDataset) -> None:
    for channel, low, high in [
        ("HeartRate", 75, 95),
        ("MeanBP", 70, 90),
        ("Temp", 36.5, 37.5),
        ("LACTATE", 1, 3),
    ]:
        assert low < np.nanmedian(_raw(dataset, channel)[_months(dataset) < 12]) < high
    night = _clock_mean(dataset, "Temp", 4)
    evening = _clock_mean(dataset, "Temp", 18)
    assert evening - night > 0.2


def _clock_mean(dataset: StayDataset, channel: str, hour: int) -> float:
    start = (dataset.admitted - dataset.admitted.astype("datetime64[D]")).astype(int) / 3600
    clock = (start[:, None] + np.arange(48)[None, :]) % 24
    values = _raw(dataset, channel)
    return float(np.nanmean(values[np.abs(clock - hour) < 2]))


def test_planted_motifs_show_in_their_channels_at_their_hours(dataset: StayDataset, truth: Truth) -> None:
    cells = truth.salient_cells(dataset)
    for channel, sign in [("MeanBP", -1), ("SpO2", -1), ("RespRate", 1), ("CREATININE", 1), ("LACTATE", 1)]:
        index = dataset.channel_names.index(channel)
        planted = cells[..., index]
        assert planted.any()
        deviation = dataset.x[..., index]
        assert sign * (deviation[planted].mean() - deviation[~planted].mean()) > 1.0
    assert not cells[..., dataset.channel_names.index("Temp")].any()
    assert not cells[:, :24].any()


def test_only_late_deteriorations_matter(truth: Truth) -> None:
    late = np.isin(truth.motif, DETERIORATIONS) & (truth.start >= 24)
    np.testing.assert_array_equal(truth.matters, late)
    early = np.isin(truth.motif, DETERIORATIONS) & (truth.start < 24)
    assert early.sum() > 100
    touched = np.isin(truth.risk_ids, truth.stay_ids[truth.matters])
    only_early = np.isin(truth.risk_ids, truth.stay_ids[early]) & ~touched
    assert truth.risk[touched].mean() > 0.4
    assert truth.risk[only_early].mean() < 0.05


def test_the_true_risk_separates_the_outcomes(dataset: StayDataset, truth: Truth) -> None:
    oracle = float(auroc(truth.risk_of(dataset.ids)[None], dataset.labels[None] == 1))
    assert 0.88 < oracle < 0.99
    assert 0.08 < dataset.labels.mean() < 0.2


def test_cells_on_disk_are_those_that_the_motifs_give(folder: Path, truth: Truth) -> None:
    cells = pq.read_table(folder / "truth" / "cells.parquet").to_pydict()
    assert set(cells["channel"]) <= {
        *(
            "MeanBP",
            "SysBP",
            "DiasBP",
            "HeartRate",
            "LACTATE",
            "SpO2",
            "RespRate",
            "BUN",
            "POTASSIUM",
            "CREATININE",
        )
    }
    assert min(cells["hour"]) >= 24
    assert set(cells["icustay_id"]) == set(truth.stay_ids[truth.matters].tolist())


def test_lactate_reads_higher_from_month_12_on(dataset: StayDataset) -> None:
    lactate, month = _raw(dataset, "LACTATE"), _months(dataset)
    shift = np.nanmedian(lactate[month >= 12]) - np.nanmedian(lactate[month < 12])
    assert shift == pytest.approx(1.0, abs=0.15)


def test_spo2_is_charted_half_as_often_from_month_15_on(dataset: StayDataset) -> None:
    charted, month = dataset.observed[..., dataset.channel_names.index("SpO2")], _months(dataset)
    assert charted[month >= 15].mean() / charted[month < 15].mean() == pytest.approx(0.5, abs=0.05)


def test_fahrenheit_under_the_celsius_code_empties_month_20_and_only_it(dataset: StayDataset) -> None:
    charted, month = dataset.observed[..., dataset.channel_names.index("Temp")], _months(dataset)
    assert charted[month == 20].mean() == 0
    assert charted[month == 19].mean() > 0.2
    assert charted[month == 21].mean() > 0.2


def test_from_month_18_on_respiratory_failure_no_longer_kills(dataset: StayDataset, truth: Truth) -> None:
    month = dict(zip(dataset.ids.tolist(), _months(dataset).tolist(), strict=True))
    only = [s for s in truth.stay_ids[truth.matters] if (truth.stay_ids[truth.matters] == s).sum() == 1]
    rows = truth.matters & (truth.motif == "respiratory") & np.isin(truth.stay_ids, only)
    risks = {True: [], False: []}
    for stay in truth.stay_ids[rows]:
        if int(stay) in month:
            risks[month[int(stay)] >= 18].append(truth.risk_of(np.array([stay]))[0])
    assert np.mean(risks[False]) > 0.4
    assert np.mean(risks[True]) < 0.1


def test_the_calendar_is_written_and_can_be_left_out(folder: Path, tmp_path: Path) -> None:
    calendar = json.loads((folder / "truth" / "calendar.json").read_text())
    assert [(d["name"], d["first_month"], d["last_month"]) for d in calendar["drift"]] == [
        ("lactate_assay", 12, None),
        ("spo2_charting", 15, None),
        ("treatment", 18, None),
        ("fahrenheit", 20, 20),
    ]
    calm = synthesize(tmp_path / "calm", HospitalConfig(stays=50, drift=False))
    assert load_truth(calm).calendar["drift"] == []


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_every_format_gives_the_same_tensor(tmp_path: Path, suffix: str) -> None:
    digests = {
        build(open_source("synthetic", str(synthesize(tmp_path / name, HospitalConfig(stays=60, format=name))))).digest
        for name in ("parquet", suffix)
    }
    assert len(digests) == 1


def test_readmissions_and_hidden_ages_occur(folder: Path, dataset: StayDataset) -> None:
    stays = pq.read_table(folder / "ICUSTAYS.parquet").to_pandas()
    assert stays["subject_id"].duplicated().sum() > 50
    assert dataset.preprocessing.invert(dataset.x)[:, 0, dataset.channel_names.index("Age")].max() == pytest.approx(90)


def test_training_stops_before_the_drift_when_told_so(folder: Path) -> None:
    dataset = build(open_source("synthetic", str(folder)), BuildConfig(until="2023-12"))
    assert max(dataset.select(dataset.splits != "later").windows) == "2023-12"
    assert min(dataset.part("later").windows) == "2024-01"


@pytest.mark.parametrize("options", [{"stays": 0}, {"months": 0}, {"format": "xlsx"}])
def test_impossible_hospitals_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(DataError, match="Expected"):
        HospitalConfig(**options)  # type: ignore[arg-type]


def test_a_folder_that_is_no_hospital_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("keep me")
    with pytest.raises(DataError, match="something else"):
        synthesize(tmp_path, HospitalConfig(stays=10), overwrite=True)
    assert (tmp_path / "notes.txt").exists()
