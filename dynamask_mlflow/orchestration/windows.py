"""Which window a DAG run audits: params, then the asset event, then the data interval, then the last full period."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, Literal, get_args

from dynamask_mlflow.audit.errors import AuditError

Period = Literal["day", "week", "month", "year"]
PERIODS: tuple[str, ...] = get_args(Period)
_CRON_PERIODS: dict[str, Period] = {
    "@daily": "day", "@midnight": "day", "@weekly": "week", "@monthly": "month", "@yearly": "year", "@annually": "year",
}  # fmt: skip
log = logging.getLogger(__name__)


def resolve_window(
    param: str | None,
    extras: Iterable[Mapping[str, Any] | None],
    interval: tuple[datetime, datetime] | None,
    run_after: datetime,
    *,
    period: Period,
    timezone: tzinfo,
) -> str:
    """The label of the window.

    Args:
        param: what the trigger form says; empty for nothing.
        extras: of the asset events that triggered the run; the key "window" is looked at.
        interval: the run's data interval [start, stop), None if it has none. One without width says nothing.
        run_after: when the run was due. Not the present time: a rerun must find the same window.
        period: for the last full period.
        timezone: in which days begin.

    Example:
        >>> from datetime import UTC
        >>> due = datetime(2026, 4, 1, tzinfo=UTC)
        >>> resolve_window(None, [], None, due, period="month", timezone=UTC)
        '2026-03'
    """
    if param:
        return param
    named = [str(extra["window"]) for extra in extras if extra and extra.get("window")]
    if named:
        return _join(named)
    if interval is not None and interval[0] < interval[1]:
        start, stop = (moment.astimezone(timezone) for moment in interval)
        return label_of_days(_midnight(start), _midnight(stop))
    return label_of_days(*last_full_period(run_after.astimezone(timezone).date(), period))


def label_of_days(start: date, stop: date) -> str:
    """[start, stop) as people write it: 2026, 2026-03, 2026-03-05 or 2026-03-02..2026-03-08 (both ends included)."""
    if start >= stop:
        raise AuditError(f"Expected a window of at least one day, but got {start} to {stop}.")
    if stop - start == timedelta(days=1):
        return start.isoformat()
    if start.day == stop.day == 1:
        if start.month == stop.month == 1 and stop.year == start.year + 1:
            return f"{start:%Y}"
        last = stop - timedelta(days=1)
        return (
            f"{start:%Y-%m}" if (start.year, start.month) == (last.year, last.month) else f"{start:%Y-%m}..{last:%Y-%m}"
        )
    return f"{start.isoformat()}..{(stop - timedelta(days=1)).isoformat()}"


def last_full_period(today: date, period: Period) -> tuple[date, date]:
    """The last period that is over: [start, stop)."""
    if period == "day":
        return today - timedelta(days=1), today
    if period == "week":
        stop = today - timedelta(days=today.weekday())
        return stop - timedelta(days=7), stop
    if period == "month":
        stop = today.replace(day=1)
        return (stop - timedelta(days=1)).replace(day=1), stop
    if period == "year":
        return date(today.year - 1, 1, 1), date(today.year, 1, 1)
    raise ValueError(f"Expected period to be one of {PERIODS}, but got {period!r}.")


def period_of_cron(cron: str | None, period: Period | None) -> Period:
    """What "the last full period" means for a schedule, if nobody said it."""
    if period is not None:
        if period not in PERIODS:
            raise ValueError(f"Expected period to be one of {PERIODS}, but got {period!r}.")
        return period
    return _CRON_PERIODS.get(cron or "", "month")


def _join(labels: list[str]) -> str:
    """Events that came together are audited together, lest one be lost."""
    if len(set(labels)) == 1 or "all" in labels:
        return "all" if "all" in labels else labels[0]
    firsts, lasts = zip(*((label.split("..")[0], label.split("..")[-1]) for label in labels), strict=True)
    joined = f"{min(firsts)}..{max(lasts)}"
    log.warning("Events name %d windows, %s: they are audited as one, %s.", len(labels), ", ".join(labels), joined)
    return joined


def _midnight(moment: datetime) -> date:
    if (moment.hour, moment.minute, moment.second) != (0, 0, 0):
        raise AuditError(
            f"Expected a data interval of whole days in {moment.tzinfo}, but it has an end at {moment.isoformat()}; "
            "give the window as a param, or the DAG another schedule or timezone."
        )
    return moment.date()
