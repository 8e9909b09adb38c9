"""Tables as others have them: durations and HH:MM, ricu / YAIB folders, ACES labels, labels under other names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dynamask_mlflow.data import BuildConfig, DataError, StayDataset, build, open_source

HOURS = [0.0, 1.5, 5.0]  # of the three measurements of each stay
VALUES = [60.0, 70.0, 80.0]


def _features(tmp_path: Path, codes: str = "variable: [pulse]") -> str:
    path = tmp_path / "own.yaml"
    path.write_text(f"name: own\nversion: 1\nhours: 6\nchannels: [{{name: HR, range: [0, 300], codes: {{{codes}}}}}]\n")
    return str(path)


def _events(times: Any, column: str = "time") -> pd.DataFrame:
    stays = np.repeat(np.arange(10), len(HOURS))
    return pd.DataFrame({"stay_id": stays, column: list(times) * 10, "variable": "pulse", "value": VALUES * 10})


def _build(tmp_path: Path, events: pd.DataFrame, suffix: str, **options: Any) -> StayDataset:
    path = tmp_path / f"events.{suffix}"
    if suffix == "csv":
        events.to_csv(path, index=False)
    else:
        events.to_parquet(path, index=False)
    source = open_source("long", str(path), **options)
    return build(source, BuildConfig(features=_features(tmp_path), shares=(1.0, 0.0, 0.0)))


def _measured(dataset: StayDataset) -> list[tuple[int, float]]:
    raw = dataset.preprocessing.invert(dataset.x)[3, :, 0]
    return [(int(hour), round(float(raw[hour]), 3)) for hour in np.flatnonzero(dataset.observed[3, :, 0])]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    "times",
    [
        ["00:00", "01:30", "05:00"],
        ["0:00:00", "1:30:00", "5:00:00"],
        ["0 days 00:00:00", "0 days 01:30:00", "0 days 05:00:00"],
        pd.to_timedelta(HOURS, unit="h").astype("timedelta64[s]"),
        pd.to_timedelta(HOURS, unit="h").astype("timedelta64[ms]"),
        pd.to_timedelta(HOURS, unit="h").astype("timedelta64[ns]"),
    ],
    ids=["HH:MM", "HH:MM:SS", "days", "seconds", "milliseconds", "nanoseconds"],
)
def test_clocks_and_durations_count_from_admission(times: Any, suffix: str, tmp_path: Path) -> None:
    dataset = _build(tmp_path, _events(times), suffix)
    assert _measured(dataset) == [(0, 60.0), (1, 70.0), (5, 80.0)]


def test_a_clock_beyond_a_day_goes_on(tmp_path: Path) -> None:
    events = _events(["00:00", "01:30", "25:00"])
    assert _measured(_build(tmp_path, events, "csv")) == [(0, 60.0), (1, 70.0)]


def test_a_clock_that_contradicts_the_column_is_refused(tmp_path: Path) -> None:
    events = _events(pd.to_timedelta(HOURS, unit="h").astype("timedelta64[s]"))
    with pytest.raises(DataError, match=r"auto or duration, which column time .* but got 'hours'"):
        _build(tmp_path, events, "parquet", clock="hours")


def test_numbers_without_a_unit_ask_for_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="what the numbers in column time count, one of seconds, minutes"):
        _build(tmp_path, _events([0, 90, 300]), "csv")
    assert _measured(_build(tmp_path, _events([0, 90, 300]), "csv", clock="minutes"))[1] == (1, 70.0)


def test_nearly_all_events_outside_the_window_is_an_error(tmp_path: Path) -> None:
    events = _events([60, 5400, 18000], "seconds_in")
    with pytest.raises(DataError, match=r"only 0 of 30 .* run from 60\.0 to 18000\.0 h .*--clock"):
        _build(tmp_path, events, "csv", clock="hours", columns={"time": "seconds_in"})
    dataset = _build(tmp_path, events, "csv", columns={"time": "seconds_in"})
    assert [hour for hour, _ in _measured(dataset)] == [0, 1, 5]


def test_everything_in_the_first_hour_is_a_warning(tmp_path: Path) -> None:
    dataset = _build(tmp_path, pd.concat([_events([0, 0.1, 0.2])] * 4), "csv", clock="hours")
    assert any("lie in the first hour" in finding["message"] for finding in dataset.report["findings"])


@pytest.mark.parametrize("name", ["In_hospital_death", "In-hospital_death", "InHospitalDeath", "DIED"])
def test_labels_are_found_however_they_are_spelled(name: str, tmp_path: Path) -> None:
    pd.DataFrame({"stay_id": range(10), name: [0, 1] * 5}).to_csv(tmp_path / "stays.csv", index=False)
    dataset = _build(tmp_path, _events(HOURS, "hour"), "csv", stays=str(tmp_path / "stays.csv"))
    assert dataset.labels.tolist() == [0.0, 1.0] * 5


def test_without_a_known_label_the_message_names_the_columns_that_could_be_one(tmp_path: Path) -> None:
    table = pd.DataFrame({"stay_id": range(10), "exitus": [0, 1] * 5, "site": "a"})
    table.to_csv(tmp_path / "stays.csv", index=False)
    dataset = _build(tmp_path, _events(HOURS, "hour"), "csv", stays=str(tmp_path / "stays.csv"))
    (message,) = [f["message"] for f in dataset.report["findings"] if f["column"] == "label"]
    assert "exitus have two values" in message
    assert "--column label=NAME" in message


def _yaib(folder: Path, times: Any, suffix: str = "parquet") -> Path:
    stays = np.arange(40)
    grid = pd.DataFrame({"stay_id": np.repeat(stays, 3), "time": list(times) * 40})
    grid["hr"], grid["lact"] = [60.0, 70.0, 80.0] * 40, [np.nan, 2.5, np.nan] * 40
    sta = pd.DataFrame({"stay_id": stays, "age": 60.0, "sex": ["Male", "Female"] * 20, "height": 170.0, "weight": 80.0})
    outc = pd.DataFrame({"stay_id": stays, "label": [False, True] * 20})
    folder.mkdir()
    for name, table in {"dyn": grid, "sta": sta, "outc": outc}.items():
        if suffix == "csv":
            table.to_csv(folder / f"{name}.csv", index=False)
        else:
            table.to_parquet(folder / f"{name}.parquet", index=False)
    return folder


@pytest.mark.parametrize(
    ("times", "suffix"),
    [
        (pd.to_timedelta(HOURS, unit="h").astype("timedelta64[s]"), "parquet"),
        (HOURS, "parquet"),
        (HOURS, "csv"),
    ],
    ids=["durations", "hours", "hours in csv"],
)
def test_a_yaib_folder_gives_its_cells_statics_and_labels(times: Any, suffix: str, tmp_path: Path) -> None:
    source = open_source("ricu", str(_yaib(tmp_path / "yaib", times, suffix)))
    dataset = build(source, BuildConfig(features="ricu"))
    names = list(dataset.channel_names)
    raw = dataset.preprocessing.invert(dataset.x)
    row = dataset.ids.tolist().index("3")
    assert dataset.x.shape == (40, 24, 52)
    assert np.flatnonzero(dataset.observed[row, :, names.index("hr")]).tolist() == [0, 1, 5]
    assert raw[row, [0, 1, 5], names.index("hr")] == pytest.approx([60, 70, 80])
    assert np.flatnonzero(dataset.observed[row, :, names.index("lact")]).tolist() == [1]
    assert raw[row, 0, names.index("sex")] == 0
    assert dict(zip(dataset.ids.tolist(), dataset.labels.tolist(), strict=True))["3"] == 1.0


def test_descriptors_out_of_range_are_missing_and_counted(tmp_path: Path) -> None:
    folder = _yaib(tmp_path / "yaib", HOURS)
    sta = pd.read_parquet(folder / "sta.parquet")
    sta.loc[[3, 4], "height"] = -1.0  # missing, as PhysioNet writes it
    sta.loc[5, "height"] = 1.7  # metres
    sta.loc[6, "age"] = -1.0
    sta.to_parquet(folder / "sta.parquet", index=False)
    dataset = build(open_source("ricu", str(folder)), BuildConfig(features="ricu"))
    names, ids = list(dataset.channel_names), dataset.ids.tolist()
    seen = {channel: dataset.observed[:, 0, names.index(channel)] for channel in ("height", "age")}
    assert sorted(int(ids[row]) for row in np.flatnonzero(~seen["height"])) == [3, 4, 5]
    assert [int(ids[row]) for row in np.flatnonzero(~seen["age"])] == [6]
    (found,) = [f for f in dataset.report["findings"] if (f["check"], f["column"]) == ("range", "height")]
    assert (found["count"], found["level"]) == (1, "note")
    assert "1 of 38 values of height are out of range (1 too low, 0 too high)" in found["message"]
    assert dataset.attributes["age_group"][ids.index("6")] == ""


def test_hourly_labels_of_yaib_are_refused_in_words(tmp_path: Path) -> None:
    folder = _yaib(tmp_path / "yaib", HOURS)
    outc = pd.read_parquet(folder / "outc.parquet").assign(time=0.0)
    outc.to_parquet(folder / "outc.parquet", index=False)
    with pytest.raises(DataError, match=r"one label a stay in outc .* mortality24"):
        build(open_source("ricu", str(folder)), BuildConfig(features="ricu"))


def test_aces_labels_give_the_hours_up_to_each_prediction(tmp_path: Path) -> None:
    start = pd.Timestamp("2150-01-01 00:00")
    rows = [
        {
            "subject_id": subject,
            "time": start + pd.Timedelta(hours=hour),
            "code": "HR//bpm",
            "numeric_value": 50.0 + hour,
        }
        for subject in range(1, 21)
        for hour in range(24)
    ]
    rows += [
        {"subject_id": s, "time": start - pd.Timedelta(days=366 * 50), "code": "MEDS_BIRTH", "numeric_value": None}
        for s in range(1, 21)
    ]
    (tmp_path / "data").mkdir()
    pd.DataFrame(rows).astype({"numeric_value": "float32"}).to_parquet(tmp_path / "data" / "0.parquet", index=False)
    predictions = [(s, start + pd.Timedelta(hours=h), s % 2 == 0) for s in range(1, 21) for h in (8, 16)]
    labels = pd.DataFrame(predictions, columns=["subject_id", "prediction_time", "boolean_value"])
    (tmp_path / "labels").mkdir()
    labels.to_parquet(tmp_path / "labels" / "0.parquet", index=False)
    source = open_source("meds", str(tmp_path), stays=str(tmp_path / "labels"))
    dataset = build(source, BuildConfig(features=_features(tmp_path, "meds: [HR]")))
    assert len(dataset) == 40
    raw = dataset.preprocessing.invert(dataset.x)[:, :, 0]
    # Subject 1: the six hours up to 08:00 and up to 16:00, the event at the prediction time included, none after it.
    assert raw[0] == pytest.approx([53, 54, 55, 56, 57, 58])
    assert raw[1] == pytest.approx([61, 62, 63, 64, 65, 66])
    assert dataset.labels[:4].tolist() == [0, 0, 1, 1]
    assert dataset.patient_ids[:4].tolist() == [1, 1, 2, 2]
    for subject in (1, 7):
        assert len(set(dataset.splits[dataset.patient_ids == subject])) == 1


def test_physionet_2012_reads_the_same_with_the_challenge_s_own_clock(physionet: Path, tmp_path: Path) -> None:
    """Hand check: HH:MM, as the challenge's files have it, and minutes give the same tensor."""
    events = pd.read_parquet(physionet / "events.parquet")
    events = events[events["record_id"] < 133000]
    clock = events["minute"].map(lambda minute: f"{minute // 60:02d}:{minute % 60:02d}")
    events.to_parquet(tmp_path / "minutes.parquet", index=False)
    events.drop(columns="minute").assign(Time=clock).to_csv(tmp_path / "clock.csv", index=False)
    stays = str(physionet / "outcomes.csv")
    built = [
        build(open_source("long", str(tmp_path / name), stays=stays), BuildConfig(features="physionet2012"))
        for name in ("minutes.parquet", "clock.csv")
    ]
    np.testing.assert_array_equal(built[0].observed, built[1].observed)
    np.testing.assert_allclose(built[0].x, built[1].x, atol=1e-4)  # text has other last digits than float32
    first = built[0].ids.tolist().index("132539")
    pulse = built[0].preprocessing.invert(built[0].x)[first, 0, built[0].channel_names.index("HR")]
    own = events[(events["record_id"] == 132539) & (events["parameter"] == "HR") & (events["minute"] < 60)]["value"]
    assert pulse == pytest.approx(float(own.mean()), rel=1e-5)
