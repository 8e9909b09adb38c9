"""From events to tensors on a hospital small enough to reckon by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dynamask_mlflow.data import BuildConfig, Preprocessing, StayDataset, build, open_source

Tables = dict[str, pd.DataFrame]
Writer = Callable[..., str]


def _build(path: str, config: BuildConfig | None = None, source: str = "mimic3") -> StayDataset:
    return build(open_source(source, path), config)


def _raw(dataset: StayDataset, stay: int, channel: str) -> np.ndarray:
    row = int(np.flatnonzero(dataset.ids == stay)[0])
    return dataset.preprocessing.invert(dataset.x)[row, :, dataset.channel_names.index(channel)]


def _observed(dataset: StayDataset, stay: int, channel: str) -> list[int]:
    row = int(np.flatnonzero(dataset.ids == stay)[0])
    return np.flatnonzero(dataset.observed[row, :, dataset.channel_names.index(channel)]).tolist()


def test_a_block_starts_with_its_hour_and_ends_before_the_next(tables: Tables, written: Writer) -> None:
    start = tables["ICUSTAYS"]["intime"][1]
    offsets = ["-1s", "0s", "3599s", "3600s", "172799s", "172800s"]
    tables["CHARTEVENTS"] = pd.DataFrame(
        {
            "subject_id": 101,
            "itemid": 220045,
            "charttime": [start + pd.Timedelta(offset) for offset in offsets],
            "valuenum": [200.0, 60.0, 62.0, 70.0, 80.0, 200.0],
        }
    )
    dataset = _build(written(tables))
    assert _observed(dataset, 10001, "HeartRate") == [0, 1, 47]
    raw = _raw(dataset, 10001, "HeartRate")
    assert raw[[0, 1, 47]] == pytest.approx([61.0, 70.0, 80.0], rel=1e-5)


def test_a_gap_takes_the_last_value_and_what_comes_before_the_first_the_training_mean(
    tables: Tables, written: Writer
) -> None:
    dataset = _build(written(tables))
    raw = _raw(dataset, 10003, "HeartRate")
    assert raw == pytest.approx(np.full(48, 63.0), rel=1e-5)
    creatinine = _raw(dataset, 10003, "CREATININE")
    training = dataset.part("train").ids - 10000
    assert creatinine[:2] == pytest.approx(1 + training.mean() / 100, rel=1e-5)
    assert creatinine[2:] == pytest.approx(1.03, rel=1e-5)


def test_no_hour_depends_on_a_later_one(tables: Tables, written: Writer) -> None:
    before = _build(written(tables))
    chart = tables["CHARTEVENTS"]
    hours = chart["charttime"] - tables["ICUSTAYS"].set_index("subject_id")["intime"][chart["subject_id"]].to_numpy()
    late = hours > pd.Timedelta(hours=5)
    test_patients = before.part("test").patient_ids
    changed = late & chart["subject_id"].isin(test_patients)
    tables["CHARTEVENTS"] = chart.assign(valuenum=chart["valuenum"].where(~changed, 150.0))
    after = _build(written(tables))
    assert changed.any()
    np.testing.assert_array_equal(after.x[:, :5], before.x[:, :5])
    assert not np.array_equal(after.x[:, 5:], before.x[:, 5:])


def test_statistics_see_training_patients_only(tables: Tables, written: Writer) -> None:
    before = _build(written(tables))
    held_out = before.select(before.splits != "train").patient_ids
    chart = tables["CHARTEVENTS"]
    tables["CHARTEVENTS"] = chart.assign(valuenum=chart["valuenum"].where(~chart["subject_id"].isin(held_out), 250.0))
    after = _build(written(tables))
    assert after.preprocessing == before.preprocessing
    np.testing.assert_array_equal(after.part("train").x, before.part("train").x)


def test_statistics_are_the_mean_and_deviation_of_the_observed_training_cells(tables: Tables, written: Writer) -> None:
    dataset = _build(written(tables))
    rates = 60.0 + dataset.part("train").ids - 10000
    index = dataset.channel_names.index("HeartRate")
    assert dataset.preprocessing.mean[index] == pytest.approx(rates.mean())
    assert dataset.preprocessing.std[index] == pytest.approx(rates.std())


def test_patients_with_several_stays_stay_together_and_shares_hold(tables: Tables, written: Writer) -> None:
    for name in ("ICUSTAYS", "CHARTEVENTS", "LABEVENTS"):
        tables[name]["subject_id"] = 100 + (tables[name]["subject_id"] - 100) // 2
    dataset = _build(written(tables))
    splits_of = pd.DataFrame({"patient": dataset.patient_ids, "split": dataset.splits}).groupby("patient")["split"]
    assert (splits_of.nunique() == 1).all()
    counts = {name: len(dataset.part(name)) for name in ("train", "validation", "test")}
    assert counts == {"train": 24, "validation": 8, "test": 8}
    assert all(0 < dataset.part(name).labels.mean() < 1 for name in counts)


def test_the_split_does_not_depend_on_the_order_of_the_rows_but_on_the_seed(tables: Tables, written: Writer) -> None:
    first = _build(written(tables))
    shuffled = {name: frame.sample(frac=1, random_state=3) for name, frame in tables.items()}
    assert _build(written(shuffled)).digest == first.digest
    assert _build(written(tables), BuildConfig(seed=1)).digest != first.digest


def test_hospital_and_icu_mortality_differ_where_the_patient_leaves_the_unit_first(
    tables: Tables, written: Writer
) -> None:
    path = written(tables)  # deaths after 100 h, ICU discharge after 72 h
    assert _build(path).labels.sum() == 10
    assert _build(path, BuildConfig(label="icu")).labels.sum() == 0


def test_exclusions_are_counted_by_reason(tables: Tables, written: Writer) -> None:
    stays, admissions, patients = tables["ICUSTAYS"], tables["ADMISSIONS"], tables["PATIENTS"]
    patients.loc[1, "dob"] = stays.loc[1, "intime"] - pd.Timedelta(days=17 * 365)
    stays.loc[2, "outtime"] = stays.loc[2, "intime"] + pd.Timedelta(hours=47)
    stays.loc[4, "outtime"] = admissions.loc[4, "deathtime"] = stays.loc[4, "intime"] + pd.Timedelta(hours=20)
    tables["CHARTEVENTS"] = tables["CHARTEVENTS"][tables["CHARTEVENTS"]["subject_id"] != 105]
    tables["LABEVENTS"] = tables["LABEVENTS"][tables["LABEVENTS"]["subject_id"] != 105]
    dataset = _build(written(tables))
    counts = {e["reason"]: e["count"] for e in dataset.report["exclusions"] if e["count"]}
    assert counts == {
        "younger than 18": 1,
        "left the unit within 48 h": 1,
        "died within 48 h": 1,
        "no events in the window": 1,
    }
    assert len(dataset) == 36


def test_hidden_ages_count_as_90(tables: Tables, written: Writer) -> None:
    tables["PATIENTS"].loc[1, "dob"] = pd.Timestamp("1850-03-02")
    assert _raw(_build(written(tables)), 10001, "Age") == pytest.approx(90.0, rel=1e-5)


def test_charted_errors_do_not_count(tables: Tables, written: Writer) -> None:
    wrong = tables["CHARTEVENTS"].iloc[[1]].assign(valuenum=180.0, error=1)
    tables["CHARTEVENTS"] = pd.concat([tables["CHARTEVENTS"], wrong])
    assert _raw(_build(written(tables)), 10001, "HeartRate")[0] == pytest.approx(61.0, rel=1e-5)


def test_a_trained_model_s_statistics_transform_later_data_without_refitting(tables: Tables, written: Writer) -> None:
    trained = _build(written(tables))
    stored = Preprocessing.from_json(trained.preprocessing.to_json())
    assert stored == trained.preprocessing
    tables["CHARTEVENTS"]["valuenum"] += 30
    later = build(open_source("mimic3", written(tables)), preprocessing=stored)
    assert set(later.splits) == {"later"}
    index = trained.channel_names.index("HeartRate")
    shift = later.x[:, 0, index] - trained.x[:, 0, index]
    assert shift == pytest.approx(np.full(40, 30 / stored.std[index]), rel=1e-3)


def test_one_calendar_gives_months_and_later_stays_of_known_patients_are_left_out(
    tables: Tables, written: Writer
) -> None:
    # 40 admissions from 1 March: 31 in March, 9 in April; the last one is a readmission of the first patient.
    for name in ("ICUSTAYS", "CHARTEVENTS", "LABEVENTS"):
        tables[name].loc[tables[name]["subject_id"] == 139, "subject_id"] = 100
    dataset = _build(written(tables), BuildConfig(until="2150-03"), source="synthetic")
    assert set(dataset.windows) == {"2150-03", "2150-04"}
    assert len(dataset.part("later")) == 8
    assert set(dataset.part("later").windows) == {"2150-04"}
    reasons = {e["reason"]: e["count"] for e in dataset.report["exclusions"]}
    assert reasons["a later stay of a patient seen until 2150-03"] == 1
    assert len(dataset.window("2150-04")) == 8


def test_mimic4_is_read_from_its_two_folders_with_its_own_columns(tables: Tables, tmp_path: Path) -> None:
    icu, hosp = tmp_path / "icu", tmp_path / "hosp"
    icu.mkdir()
    hosp.mkdir()
    stays = tables["ICUSTAYS"].rename(columns={"icustay_id": "stay_id"}).drop(columns="dbsource")
    stays.to_csv(icu / "icustays.csv.gz", index=False)
    tables["CHARTEVENTS"].drop(columns="error").to_csv(icu / "chartevents.csv.gz", index=False)
    tables["ADMISSIONS"].rename(columns={"ethnicity": "race"}).to_csv(hosp / "admissions.csv.gz", index=False)
    patients = tables["PATIENTS"][["subject_id", "gender"]].assign(
        anchor_age=50, anchor_year=2148, anchor_year_group="2011 - 2013"
    )
    patients.to_csv(hosp / "patients.csv.gz", index=False)
    # The result is stored 90 minutes after the blood was drawn: it counts from then on.
    labs = tables["LABEVENTS"].assign(storetime=tables["LABEVENTS"]["charttime"] + pd.Timedelta(minutes=90))
    labs.to_csv(hosp / "labevents.csv.gz", index=False)
    dataset = _build(str(tmp_path), source="mimic4")
    assert len(dataset) == 40
    assert set(dataset.windows) == {"2011 - 2013"}
    assert _raw(dataset, 10001, "Age") == pytest.approx(52.0, rel=1e-5)
    assert _observed(dataset, 10001, "CREATININE") == [3]
    assert _raw(dataset, 10001, "HeartRate")[0] == pytest.approx(61.0, rel=1e-5)


def test_meds_gives_the_cells_of_the_tables_it_was_made_from(tables: Tables, written: Writer, tmp_path: Path) -> None:
    stays, chart, labs = tables["ICUSTAYS"], tables["CHARTEVENTS"], tables["LABEVENTS"]
    died = tables["ADMISSIONS"]["deathtime"]

    def events(subject: object, time: object, code: object, value: object = None) -> pd.DataFrame:
        return pd.DataFrame({"subject_id": subject, "time": time, "code": code, "numeric_value": value})

    parts = [
        events(stays["subject_id"], stays["intime"], "ICU_ADMISSION//MICU"),
        events(stays["subject_id"], stays["outtime"], "ICU_DISCHARGE//MICU"),
        events(stays["subject_id"], stays["intime"] + pd.Timedelta(hours=100), "HOSPITAL_DISCHARGE//HOME"),
        events(stays["subject_id"], pd.Timestamp("2090-01-01"), "MEDS_BIRTH"),
        events(stays["subject_id"], pd.NaT, "GENDER//F"),
        events(stays["subject_id"], stays["intime"], "RACE//WHITE"),
        events(stays["subject_id"][died.notna()], died.dropna(), "MEDS_DEATH"),
        events(chart["subject_id"], chart["charttime"], "LAB//220045//bpm", chart["valuenum"]),
        events(labs["subject_id"], labs["charttime"], "LAB//RESULT//50912//mg/dL", labs["valuenum"]),
    ]
    (tmp_path / "data" / "train").mkdir(parents=True)
    frame = pd.concat([part.astype({"numeric_value": "float32"}) for part in parts])
    frame.to_parquet(tmp_path / "data" / "train" / "0.parquet", index=False)
    dataset = _build(str(tmp_path), source="meds")
    expected = _build(written(tables))
    np.testing.assert_array_equal(dataset.labels, expected.labels)
    np.testing.assert_array_equal(dataset.observed, expected.observed)
    np.testing.assert_allclose(dataset.x, expected.x, atol=1e-4)


def _own_set(tmp_path: Path) -> str:
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\nversion: 1\nhours: 6\nchannels: [{name: HR, range: [0, 300], codes: {variable: [pulse]}}]\n"
    )
    return str(path)


def test_a_live_feed_with_timestamps_and_text_ids_is_read_through_the_long_table(tmp_path: Path) -> None:
    start = pd.Timestamp("2026-05-30 08:00", tz="Europe/Berlin")
    stays = pd.DataFrame(
        {
            "encounter_id": ["a", "b", "c", "d"],
            "admitted": [start + pd.Timedelta(days=d) for d in range(4)],
            "died": [0, 1, 0, 1],
        }
    )
    events = pd.DataFrame(
        {
            "encounter_id": ["a", "a", "b", "c", "d"],
            "charttime": [start + pd.Timedelta(hours=h) for h in (0.5, 2, 24.5, 48, 72)],
            "code": "pulse",
            "value": [80.0, 90.0, 70.0, 75.0, 65.0],
        }
    )
    stays.to_parquet(tmp_path / "stays.parquet")
    events.to_parquet(tmp_path / "events.parquet")
    dataset = build(
        open_source("long", str(tmp_path / "events.parquet"), stays=str(tmp_path / "stays.parquet")),
        BuildConfig(features=_own_set(tmp_path), shares=(1.0, 0.0, 0.0)),
    )
    assert dataset.ids.tolist() == ["a", "b", "c", "d"]
    assert dataset.windows.tolist() == ["2026-05", "2026-05", "2026-06", "2026-06"]
    assert np.flatnonzero(dataset.observed[0, :, 0]).tolist() == [0, 2]
    assert dataset.preprocessing.invert(dataset.x)[0, :, 0] == pytest.approx([80, 80, 90, 90, 90, 90])


def test_a_long_table_without_stays_gives_unlabelled_data_and_columns_can_be_named(tmp_path: Path) -> None:
    pd.DataFrame({"who": [1, 2], "when": [30, 90], "what": "pulse", "how_much": [80.0, 90.0]}).to_csv(
        tmp_path / "e.csv", index=False
    )
    columns = {"id": "who", "time": "when", "variable": "what", "value": "how_much"}
    source = open_source("long", str(tmp_path / "e.csv"), columns=columns, clock="minutes")
    dataset = build(source, BuildConfig(features=_own_set(tmp_path), shares=(1.0, 0.0, 0.0)))
    assert np.isnan(dataset.labels).all()
    assert [np.flatnonzero(row).tolist() for row in dataset.observed[:, :, 0]] == [[0], [1]]
