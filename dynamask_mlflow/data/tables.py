"""Where tables live: folders of CSV, csv.gz or Parquet, in either case; columns are found and cast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dynamask_mlflow.data.engine import Engine, literal, quoted
from dynamask_mlflow.data.errors import DataError, Finding

SUFFIXES = (".parquet", ".csv", ".csv.gz")
LABEL = "LABEL"  # a number, or true and false as 1 and 0


@dataclass(frozen=True)
class Column:
    """A column by its canonical name. `spellings` are further names under which releases call it."""

    name: str
    type: str = "VARCHAR"
    spellings: tuple[str, ...] = ()
    required: bool = True
    own: str = ""  # where a user named the table's own column: this one and no other

    @property
    def candidates(self) -> tuple[str, ...]:
        return (self.own,) if self.own else (self.name, *self.spellings)


@dataclass(frozen=True)
class Scan:
    """A table ready for a FROM clause, and the expression that reads each canonical column from it."""

    label: str
    source: str
    expressions: dict[str, str]
    raw: dict[str, str]

    def select(self, names: Sequence[str], where: str = "") -> str:
        columns = ", ".join(f"{self.expressions[name]} AS {quoted(name)}" for name in names)
        return f"SELECT {columns} FROM {self.source}" + (f" WHERE {where}" if where else "")


class Tables(Protocol):
    """A place that holds tables under their official names."""

    def scan(
        self, engine: Engine, table: str, columns: Sequence[Column], only: tuple[str, Sequence[object]] | None
    ) -> Scan:
        """Open a table; `only` = (column, values) lets a server send just the rows with one of the values."""

    def describe(self) -> str:
        """Where this is, for reports and errors; never with a password."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True)
class FolderTables:
    """Tables as files in a folder or its sub-folders, such as `ICUSTAYS.csv.gz` or `icu/icustays.parquet`."""

    path: Path
    subfolders: tuple[str, ...] = ("",)

    def __post_init__(self) -> None:
        if not self.path.is_dir():
            raise DataError(f"Expected a folder of tables at {self.path}, but there is none.")

    def describe(self) -> str:
        return str(self.path)

    def close(self) -> None:
        """Nothing is held open."""

    def scan(
        self,
        engine: Engine,
        table: str,
        columns: Sequence[Column],
        only: tuple[str, Sequence[object]] | None = None,
    ) -> Scan:
        return scan_file(engine, self.locate(table), columns, label=table)

    def locate(self, table: str) -> Path:
        wanted = {f"{table}{suffix}" for suffix in SUFFIXES} | {table}
        for folder in (self.path / sub for sub in self.subfolders):
            if not folder.is_dir():
                continue
            found = [entry for entry in sorted(folder.iterdir()) if entry.name.lower() in wanted]
            for entry in found:
                if entry.is_file() or any(entry.glob("*.parquet")):
                    return entry
        names = " or ".join(f"{table}{suffix}" for suffix in SUFFIXES)
        places = ", ".join(str(self.path / sub) for sub in self.subfolders)
        raise DataError(f"Expected the table {table} ({names}, in either case) in {places}, but it is missing.")


def scan_file(engine: Engine, path: Path, columns: Sequence[Column], label: str) -> Scan:
    """Open one CSV, csv.gz or Parquet file, or a folder of Parquet files."""
    if path.is_dir():
        source = f"read_parquet({literal(str(path / '**' / '*.parquet'))})"
    elif path.name.lower().endswith(".parquet"):
        source = f"read_parquet({literal(str(path))})"
    elif path.name.lower().endswith((".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz")):
        if path.stat().st_size == 0:
            raise DataError(f"Expected a header and rows in {path}, but the file is empty.")
        delimiter = "\\t" if ".tsv" in path.name.lower() else ","
        # Everything is read as text and cast below: one bad cell is counted instead of ending the build.
        source = (
            f"read_csv({literal(str(path))}, all_varchar = true, header = true, delim = '{delimiter}', "
            "quote = '\"', escape = '\"', nullstr = '', strict_mode = true)"
        )
    else:
        raise DataError(f"Expected a .csv, .csv.gz or .parquet file, but got {path}.")
    described = engine.rows(f"DESCRIBE SELECT * FROM {source}", str(path))
    scan = resolve_columns(label, source, {row[0]: row[1] for row in described}, columns, str(path))
    if not engine.rows(f"SELECT 1 FROM {source} LIMIT 1", str(path)):
        raise DataError(f"Expected rows in {path}, but it has none.")
    return scan


def resolve_columns(label: str, source: str, types: dict[str, str], columns: Sequence[Column], where: str) -> Scan:
    """Match canonical columns with the table's own, whatever their case; name every missing one."""
    by_lower = {plain_name(name): name for name in types} | {name.lower(): name for name in types}
    expressions, raw, missing = {}, {}, []
    for column in columns:
        spellings = [form for name in column.candidates for form in (name.lower(), plain_name(name))]
        own = next((by_lower[form] for form in spellings if form in by_lower), None)
        if own is None:
            if column.required or column.own:
                missing.append(column.own or column.name)
            raw[column.name] = "NULL"
            expressions[column.name] = f"CAST(NULL AS {'DOUBLE' if column.type == LABEL else column.type})"
        else:
            raw[column.name] = quoted(own)
            expressions[column.name] = cast(quoted(own), types[own], column.type)
    if missing:
        raise DataError(f"Expected the columns {', '.join(missing)} in {where}, but it has only {', '.join(types)}.")
    return Scan(label=label, source=source, expressions=expressions, raw=raw)


def plain_name(name: str) -> str:
    """Letters and digits in lower case: "In-hospital_death", "In_Hospital_Death" and "inhospitaldeath" are one."""
    return "".join(character for character in name.lower() if character.isalnum())


def cast(expression: str, own: str, wanted: str) -> str:
    """NULL instead of an error for what cannot be read. Times with a zone become UTC."""
    if own == wanted:
        return expression
    if wanted == LABEL:
        truth = f"CAST(TRY_CAST({expression} AS BOOLEAN) AS DOUBLE)"
        return truth if own == "BOOLEAN" else f"coalesce(TRY_CAST({expression} AS DOUBLE), {truth})"
    if wanted == "TIMESTAMP" and own == "TIMESTAMP WITH TIME ZONE":
        return f"make_timestamp(epoch_us({expression}))"
    if wanted == "BIGINT" and own == "VARCHAR":
        # "123.0" is how pandas writes an integer column that once held a gap.
        return f"TRY_CAST(TRY_CAST({expression} AS DECIMAL(38, 3)) AS BIGINT)"
    return f"TRY_CAST({expression} AS {wanted})"


def load(engine: Engine, tables: Tables, table: str, columns: Sequence[Column]) -> tuple[str, list[Finding]]:
    """Copy a small table into the engine, and count the cells that cannot be read.

    Unreadable or empty cells in a required column of type BIGINT (an id) are an error; others are findings.
    """
    scan = tables.scan(engine, table, columns, None)
    name = engine.new_name(table)
    pairs = ", ".join(
        f"{scan.expressions[c.name]} AS {quoted(c.name)}, {scan.raw[c.name]} IS NOT NULL AS {quoted('has_' + c.name)}"
        for c in columns
    )
    engine.execute(f"CREATE TEMP TABLE {name} AS SELECT {pairs} FROM {scan.source}", scan.label)
    counts = ", ".join(
        f"count(*) FILTER ({quoted(c.name)} IS NULL AND {quoted('has_' + c.name)}), "
        f"count(*) FILTER ({quoted(c.name)} IS NULL)"
        for c in columns
    )
    (row,) = engine.rows(f"SELECT count(*), {counts} FROM {name}", scan.label)
    if row[0] == 0:
        raise DataError(f"Expected rows in the table {table} of {tables.describe()}, but it has none.")
    findings = []
    for position, column in enumerate(columns):
        unreadable, empty = row[1 + 2 * position], row[2 + 2 * position]
        where = f"{table}.{column.name}"
        if column.required and column.type == "BIGINT" and empty:
            raise DataError(f"Expected integers in {where}, but {empty} of {row[0]} cannot be read or are empty.")
        if unreadable:
            what = {"TIMESTAMP": "times", "BIGINT": "integers", "DOUBLE": "numbers"}.get(column.type, column.type)
            findings.append(
                Finding(
                    "warning",
                    "unreadable",
                    where,
                    unreadable,
                    f"Expected {what} in {where}, but {unreadable} of {row[0]} cannot be read.",
                )
            )
    return name, findings
