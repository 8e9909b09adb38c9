"""Times of events: what a column counts, and the SQL that turns it into microseconds since admission."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dynamask_mlflow.data.engine import Engine
from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.data.tables import Scan

# Microseconds of what a number counts.
COUNTS = {"seconds": 1_000_000, "minutes": 60_000_000, "hours": 3_600_000_000, "days": 86_400_000_000}
CLOCKS = ("auto", *COUNTS, "duration", "timestamp")
# Arrow's durations, which Parquet stores as plain integers: microseconds of one.
_DURATIONS = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}
# "02:30", "47:05:30", "1 day, 2:30:00", "1 days 02:30:00.5"
_TEXT_DURATION = r"^\s*-?(\d+ days?,? *)?\d+:\d{2}(:\d{2}(\.\d+)?)?\s*$"
_SAMPLE = 1000
MINIMUM_EVENTS = 20  # below which a share means nothing
LEAST_INSIDE = 0.05


@dataclass(frozen=True)
class Clock:
    """How to read a column of times: `expression` gives microseconds, since admission unless it is `absolute`."""

    kind: str
    expression: str
    absolute: bool = False


def find_clock(engine: Engine, path: Path, scan: Scan, clock: str, numbers: str = "") -> Clock:
    """Tell from the column's type, its text and its name what it counts.

    `clock` may say what a number counts; `numbers` is what it counts if neither `clock` nor the name says so.
    """
    column = scan.raw["time"]
    name = column.strip('"')
    unit = _duration_unit(path, name)
    (row,) = engine.rows(f"SELECT typeof({column}) FROM {scan.source} LIMIT 1", scan.label)
    own = str(row[0])
    if unit is not None:
        found = Clock("duration", f"CAST(floor(e.time * {_DURATIONS[unit]}) AS BIGINT)")
    elif own in ("INTERVAL", "TIME"):
        found = Clock("duration", "epoch_us(CAST(e.time AS INTERVAL))")
    elif "TIMESTAMP" in own:
        found = Clock("timestamp", "epoch_us(e.time)", absolute=True)
    elif own == "DATE":
        found = Clock("timestamp", "epoch_us(CAST(e.time AS TIMESTAMP))", absolute=True)
    elif own == "VARCHAR":
        found = _of_text(engine, scan, name, _unit_of_numbers(name, clock, numbers))
    else:
        found = _of_numbers(name, _unit_of_numbers(name, clock, numbers))
    if clock not in ("auto", found.kind):
        raise DataError(
            f"Expected clock to be auto or {found.kind}, which column {name} of {path} holds, but got {clock!r}."
        )
    return found


def _of_text(engine: Engine, scan: Scan, name: str, unit: str) -> Clock:
    column = scan.raw["time"]
    numbers, durations, stamps, read = engine.rows(
        f"SELECT count(TRY_CAST(t AS DOUBLE)), count(*) FILTER (regexp_matches(t, '{_TEXT_DURATION}')), "
        f"count(TRY_CAST(t AS TIMESTAMP)), count(t) "
        f"FROM (SELECT {column} AS t FROM {scan.source} WHERE {column} IS NOT NULL LIMIT {_SAMPLE})",
        scan.label,
    )[0]
    best = max(numbers, durations, stamps)
    if not best:
        raise DataError(
            f"Expected times in column {name} as numbers, HH:MM, or dates, but none of {read} can be read as one."
        )
    if best == numbers:
        return _of_numbers(name, unit)
    if best == durations:
        return Clock("duration", "epoch_us(TRY_CAST(replace(e.time, ',', '') AS INTERVAL))")
    return Clock("timestamp", "epoch_us(TRY_CAST(e.time AS TIMESTAMP))", absolute=True)


def _unit_of_numbers(name: str, clock: str, otherwise: str) -> str:
    if clock in COUNTS:
        return clock
    return next((kind for kind in COUNTS if kind.removesuffix("s") in name.lower()), otherwise)


def _of_numbers(name: str, unit: str) -> Clock:
    if not unit:
        raise DataError(
            f"Expected clock to say what the numbers in column {name} count, one of {', '.join(COUNTS)}, but got none."
        )
    return Clock(unit, f"CAST(floor(TRY_CAST(e.time AS DOUBLE) * {COUNTS[unit]}) AS BIGINT)")


def _duration_unit(path: Path, column: str) -> str | None:
    """The unit of an Arrow duration; the query engine sees an integer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = next(iter(sorted(path.glob("**/*.parquet"))), None) if path.is_dir() else path
    if file is None or not file.name.lower().endswith(".parquet"):
        return None
    try:
        kind = pq.read_schema(file).field(column).type
    except (KeyError, OSError, pa.ArrowException):
        return None
    return str(kind.unit) if pa.types.is_duration(kind) else None


def check_times(engine: Engine, events: str, clock: Clock, where: str) -> None:
    """Raise `DataError` if nearly all events lie outside the window of their stay: the clock is then misread.

    `events` selects micros and length, one row an event of a stay in the cohort.
    """
    read, inside, first, last = engine.rows(
        f"SELECT count(micros), count(*) FILTER (micros >= 0 AND micros < length), min(micros), max(micros) "
        f"FROM ({events})",
        where,
    )[0]
    if read >= MINIMUM_EVENTS and inside < LEAST_INSIDE * read:
        span = f"{first / 3.6e9:.1f} to {last / 3.6e9:.1f} h after admission"
        others = ", ".join(kind for kind in (*COUNTS, "timestamp") if kind != clock.kind)
        raise DataError(
            f"Expected events within the window of their stays, but only {inside} of {read} in {where} are; they run "
            f"from {span}. The times were read as {clock.kind}: are they {others}? (--clock)"
        )
