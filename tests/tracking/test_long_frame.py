from __future__ import annotations

import re
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

TABLE = pd.DataFrame(
    {
        "stay": ["b", "b", "b", "a", "a"],
        "hour": [2, 0, 1, 0, 1],
        "hr": [72.0, 70.0, 71.0, 60.0, 61.0],
        "spo2": [97.0, 95.0, 96.0, 90.0, 91.0],
        "died": [1, 1, 1, 0, 0],
        "risk": [0.3, 0.1, 0.2, 0.5, 0.6],
    }
)
WIDE: dict[str, Any] = {"id": "stay", "time": "hour", "channels": ["hr", "spo2"]}


def test_rows_in_any_order_land_in_their_cells() -> None:
    dataset = mlflow.data.from_long_frame(TABLE, **WIDE, targets="died")
    assert dataset.ids == ("b", "a")
    assert dataset.channel_names == ("hr", "spo2")
    np.testing.assert_array_equal(dataset.features[0], [[70, 95], [71, 96], [72, 97]])
    np.testing.assert_array_equal(dataset.features[1], [[60, 90], [61, 91], [0, 0]])
    np.testing.assert_array_equal(dataset.targets, [1, 0])
    np.testing.assert_array_equal(dataset.sequences.lengths, [3, 2])


def test_one_row_a_measurement_gives_the_same_as_one_row_a_time() -> None:
    long = TABLE.melt(id_vars=["stay", "hour", "died"], value_vars=["hr", "spo2"], var_name="item")
    wide = mlflow.data.from_long_frame(TABLE, **WIDE, targets="died")
    tall = mlflow.data.from_long_frame(long, id="stay", time="hour", channels="item", values="value", targets="died")
    assert tall.digest == wide.digest


def test_targets_may_change_with_time() -> None:
    dataset = mlflow.data.from_long_frame(TABLE, **WIDE, targets="risk", targets_per_step=True)
    np.testing.assert_array_equal(dataset.targets[0], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(dataset.targets[1, :2], [0.5, 0.6])


def test_missing_cells_are_filled_as_asked_and_marked() -> None:
    gaps = TABLE.assign(hr=[72.0, np.nan, 71.0, 60.0, np.nan])
    forward = mlflow.data.from_long_frame(gaps, **WIDE, fill="forward")
    np.testing.assert_allclose(forward.features[:, :, 0], [[(72 + 71 + 60) / 3, 71, 72], [60, 60, 0]], rtol=1e-6)
    assert not forward.sequences.observed[0, 0, 0]
    assert forward.sequences.observed[0, 0, 1]
    constant = mlflow.data.from_long_frame(gaps, **WIDE, fill=-1.0)
    np.testing.assert_array_equal(constant.features[:, :, 0], [[-1, 71, 72], [60, -1, 0]])


def test_times_may_be_dates() -> None:
    dated = TABLE.assign(hour=pd.Timestamp("2026-03-01") + pd.to_timedelta(TABLE["hour"], unit="h"))
    dataset = mlflow.data.from_long_frame(dated, **WIDE)
    assert dataset.sequences.times[1] == "2026-03-01 01:00:00"


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (TABLE, {"channels": ["hr", "lactate"]}, r"but \['lactate'\] are not among"),
        (TABLE, {"targets": "risk"}, "Expected one value of 'risk' for each 'stay'"),
        (TABLE.iloc[:0], {}, "Expected a table with at least one row"),
        (pd.concat([TABLE, TABLE.iloc[:1]]), {}, "Expected one row for each .* but 1 are repeated"),
        (TABLE.assign(stay=[None, "b", "b", "a", "a"]), {}, "Expected a value of 'stay' in every row, but 1"),
        (
            TABLE.assign(hr=[1, np.nan, 1, 1, 1]),
            {},
            "1 are missing, the first of 'hr' of 'b' at '0'",
        ),
        (TABLE, {"fill": "backward"}, "Expected fill to be a number or one of"),
        (TABLE, {"channels": []}, "Expected at least one channel"),
    ],
)
def test_bad_tables_are_named(table: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mlflow.data.from_long_frame(table, **{**WIDE, **options})


def plant() -> pd.DataFrame:
    """Two pumps, minutes of different days; one minute is missing."""
    first, second = pd.Timestamp("2026-03-01 08:00"), pd.Timestamp("2026-03-09 21:30:10")
    minutes = [first + pd.Timedelta(minutes=m) for m in (0, 1, 3)]
    minutes += [second + pd.Timedelta(minutes=m) for m in (0, 1)]
    return pd.DataFrame({"pump": ["a"] * 3 + ["b"] * 2, "at": minutes, "flow": [1.0, 2.0, 4.0, 5.0, 6.0]})


@pytest.mark.parametrize("kind", ["timestamps", "text", "durations"])
def test_times_may_count_from_each_sequences_own_first_row(kind: str) -> None:
    table = plant()
    if kind == "text":
        table["at"] = table["at"].astype(str)
    elif kind == "durations":
        table["at"] = table["at"] - pd.Timestamp("2026-01-01")
    columns: dict[str, Any] = {"id": "pump", "time": "at", "channels": ["flow"], "fill": "forward"}
    dataset = mlflow.data.from_long_frame(table, **columns, since_start="minutes")
    assert dataset.sequences.times == (0, 1, 3)
    np.testing.assert_array_equal(dataset.features[:, :, 0], [[1, 2, 4], [5, 6, 0]])
    np.testing.assert_array_equal(dataset.sequences.lengths, [3, 2])


def test_offsets_that_change_with_summer_time_are_read_right() -> None:
    """As text has them: 01:00+01:00, then 03:00+02:00, an hour later."""
    hours = pd.date_range("2026-03-29 00:00", periods=4, freq="h", tz="Europe/Berlin")
    table = pd.DataFrame({"pump": ["a"] * 4, "at": hours.astype(str), "flow": [1.0, 2.0, 3.0, 4.0]})
    dataset = mlflow.data.from_long_frame(table, id="pump", time="at", channels=["flow"], since_start="hours")
    assert dataset.sequences.times == (0, 1, 2, 3)


def test_cells_may_stay_missing_for_a_model_that_takes_nan() -> None:
    columns: dict[str, Any] = {"id": "pump", "time": "at", "channels": ["flow", "heat"], "since_start": "minutes"}
    table = plant().assign(heat=[1.0, np.nan, 3.0, 4.0, 5.0])
    found = mlflow.data.from_long_frame(table, **columns, fill=np.nan)
    np.testing.assert_array_equal(found.features[:, :, 1], [[1, np.nan, 3], [4, 5, 0]])


def test_ids_and_times_may_stand_in_the_index() -> None:
    columns: dict[str, Any] = {"id": "pump", "time": "at", "channels": ["flow"], "since_start": "minutes", "fill": 0.0}
    found = mlflow.data.from_long_frame(plant().set_index(["pump", "at"]), **columns)
    assert found.digest == mlflow.data.from_long_frame(plant(), **columns).digest


def test_sequences_with_hardly_a_time_in_common_are_told_the_way_out(caplog: pytest.LogCaptureFixture) -> None:
    later = [plant().assign(pump=str(n), at=plant()["at"] + pd.Timedelta(n, "D")) for n in range(40)]
    table = pd.concat(later).drop_duplicates(["pump", "at"])
    mlflow.data.from_long_frame(table, id="pump", time="at", channels=["flow"], fill=0.0)
    assert "since_start='minutes'" in caplog.text


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {}, "the first of 'flow' of 'b' at '2026-03-01 08:00:00'. Fill them with fill='forward'"),
        ({}, {}, "If sequences begin at different dates, since_start='minutes'"),
        ({}, {"since_start": "weeks"}, "one of seconds, minutes, hours, days, but got 'weeks'"),
        ({"at": [0, 1, 2, 0, 1]}, {"since_start": "minutes"}, "Expected timestamps in 'at'"),
        ({"at": ["?", "1", "2", "0", "1"]}, {"since_start": "minutes"}, "Expected timestamps in 'at'"),
        ({"at": [0, "1", 2, 0, 1]}, {"fill": 0.0}, "Expected values of one kind in 'at'"),
        ({"flow": pd.date_range("2026", periods=5)}, {"fill": 0.0}, "flow hold timestamps"),
        ({}, {"fill": True}, "Expected fill to be a number or one of"),
        ({}, {"targets": "flow"}, "Expected different columns"),
        ({"flow": [1, "high", 2, 3, 4]}, {"fill": 0.0}, "Expected channels of numbers, but 'flow' (object)"),
    ],
)
def test_what_a_table_lacks_is_said_with_the_way_out(
    change: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    table = plant().assign(**{name: pd.Series(values, dtype=object).infer_objects() for name, values in change.items()})
    with pytest.raises(ValueError, match=re.escape(words)):
        mlflow.data.from_long_frame(table, id="pump", time="at", channels=["flow"], **options)


def test_a_grid_that_would_take_all_memory_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_MAX_BYTES", "30")
    with pytest.raises(ValueError, match="would take 40"):
        mlflow.data.from_long_frame(plant(), id="pump", time="at", channels=["flow"], fill=0.0)


def test_times_in_text_that_are_numbers_are_put_in_order() -> None:
    table = pd.DataFrame({"id": ["a"] * 3, "t": ["1", "10", "2"], "hr": [1.0, 3.0, 2.0]})
    sequences = mlflow.data.from_long_frame(table, id="id", time="t", channels=["hr"]).sequences
    assert sequences.times == (1, 2, 10)
    assert sequences.x[0, :, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("times", [["2026-03-01", "2026-03-01 08:00"], ["08:00", "09:30"], ["t01", "t02"]])
def test_times_in_text_that_sort_as_they_are_stay_as_they_are(times: list[str]) -> None:
    table = pd.DataFrame({"id": ["a"] * 2, "t": times[::-1], "hr": [2.0, 1.0]})
    sequences = mlflow.data.from_long_frame(table, id="id", time="t", channels=["hr"]).sequences
    assert sequences.times == tuple(times)
    assert sequences.x[0, :, 0].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("times", "since_start"),
    [
        (["1.2.2026", "10.2.2026"], None),
        (["01.02.2026", "15.01.2026"], None),
        (["01.02.2026", "15.01.2026"], "hours"),
        (["02/01/2026 08:00", "01/31/2026 09:00"], "hours"),
        (["09:00 PM", "10:00 AM"], None),
        (["9:00", "10:00"], None),
        (["day 9", "day 10"], None),
    ],
)
def test_times_in_text_of_unknown_order_are_refused(times: list[str], since_start: str | None) -> None:
    table = pd.DataFrame({"id": ["a"] * 2, "t": times, "hr": [1.0, 2.0]})
    with pytest.raises(ValueError, match="Expected times in 't' that are numbers, timestamps, or text that sorts"):
        mlflow.data.from_long_frame(table, id="id", time="t", channels=["hr"], since_start=since_start)


def test_text_in_a_channel_is_refused_with_the_way_out() -> None:
    table = pd.DataFrame({"id": ["a"] * 2, "t": [0, 1], "code": ["atm", "rent"]})
    with pytest.raises(ValueError, match=r"'code' .*Give codes as numbers, or .* \(pd\.get_dummies\)"):
        mlflow.data.from_long_frame(table, id="id", time="t", channels=["code"])
