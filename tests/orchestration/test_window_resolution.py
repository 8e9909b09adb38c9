"""The window of a run: params, the event, the interval, the last full period, in this order."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.windows import parse_window
from dynamask_mlflow.orchestration.windows import label_of_days, last_full_period, period_of_cron, resolve_window

MARCH = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
NOW = datetime(2026, 6, 10, 4, 30, tzinfo=UTC)


def resolve(param=None, extras=(), interval=None, period="month", timezone=UTC):
    return resolve_window(param, extras, interval, NOW, period=period, timezone=timezone)


def test_each_source_goes_before_the_next() -> None:
    event = [{"window": "2026-02"}]
    assert resolve("2026-01", event, MARCH) == "2026-01"
    assert resolve(None, event, MARCH) == "2026-02"
    assert resolve("", [None, {}, {"rows": 3}], MARCH) == "2026-03"
    assert resolve(None, (), None) == "2026-05"


def test_an_interval_without_width_says_nothing() -> None:
    assert resolve(interval=(MARCH[0], MARCH[0])) == "2026-05"


def test_events_that_came_together_are_audited_together() -> None:
    assert resolve(extras=[{"window": "2026-02"}, {"window": "2026-01"}]) == "2026-01..2026-02"
    assert resolve(extras=[{"window": "2026-02"}, {"window": "2026-02"}]) == "2026-02"
    assert resolve(extras=[{"window": "2026-02"}, {"window": "all"}]) == "all"


def test_days_begin_in_the_hospital_s_timezone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    march = (datetime(2026, 2, 28, 23, tzinfo=UTC), datetime(2026, 3, 31, 22, tzinfo=UTC))
    assert resolve(interval=march, timezone=berlin) == "2026-03"
    with pytest.raises(AuditError, match="whole days"):
        resolve(interval=march)


@pytest.mark.parametrize(
    ("period", "label"),
    [("day", "2026-06-09"), ("week", "2026-06-01..2026-06-07"), ("month", "2026-05"), ("year", "2025")],
)
def test_the_last_full_period(period, label) -> None:
    assert resolve(period=period) == label


def test_a_cron_expression_tells_its_period_unless_somebody_does() -> None:
    assert period_of_cron("@daily", None) == "day"
    assert period_of_cron("@daily", "year") == "year"
    assert period_of_cron("0 4 * * 1", None) == "month"


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.integers(1, 800))
def test_a_label_means_the_days_it_was_made_of(start: date, days: int) -> None:
    stop = date.fromordinal(start.toordinal() + days)
    window = parse_window(label_of_days(start, stop))
    assert (window.start, window.stop) == (f"{start}T00:00:00", f"{stop}T00:00:00")


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.sampled_from(["day", "week", "month", "year"]))
def test_a_full_period_is_over_and_the_next_is_not(today: date, period) -> None:
    start, stop = last_full_period(today, period)
    assert start < stop <= today
    following = last_full_period(stop, period)
    assert following == (start, stop)
