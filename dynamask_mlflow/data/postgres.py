"""Tables in Postgres, read as Arrow through ADBC: batches stream from the server into the engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow.data.engine import Engine, literal, quoted
from dynamask_mlflow.data.errors import DataError
from dynamask_mlflow.data.tables import Column, Scan, resolve_columns

# Types for which the driver has an Arrow type; anything else travels as text and is cast at our end.
_NATIVE = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "timestamp without time zone": "TIMESTAMP",
    "text": "VARCHAR",
    "character varying": "VARCHAR",
}


@dataclass(frozen=True)
class PostgresTables:
    """Tables of a database, looked for in `schemas` in this order."""

    uri: str
    schemas: tuple[str, ...]
    _open: list[Any] = field(default_factory=list, repr=False, compare=False)

    def describe(self) -> str:
        """The address without the password."""
        return f"{without_secrets(self.uri).partition('?')[0]} ({', '.join(self.schemas)})"

    def scan(
        self,
        engine: Engine,
        table: str,
        columns: Sequence[Column],
        only: tuple[str, Sequence[object]] | None = None,
    ) -> Scan:
        schema, name, types = self._find(table)
        sent, native = [], {}
        for own, type_name in types.items():
            wanted = {s.lower() for c in columns for s in c.candidates}
            if own.lower() not in wanted:
                continue
            native[own] = _NATIVE.get(type_name, "VARCHAR")
            sent.append(quoted(own) if type_name in _NATIVE else f"{quoted(own)}::text AS {quoted(own)}")
        resolved = resolve_columns(table, "", native, columns, f"{schema}.{name} of {self.describe()}")
        query = f"SELECT {', '.join(sent)} FROM {quoted(schema)}.{quoted(name)}"
        if only is not None and only[1]:
            query += f" WHERE {resolved.raw[only[0]]} IN ({', '.join(literal(value) for value in only[1])})"
        source = engine.register(table, self._reader(query))
        return Scan(label=table, source=source, expressions=resolved.expressions, raw=resolved.raw)

    def close(self) -> None:
        while self._open:
            # A reader that was abandoned half-way may refuse to close; the connection goes anyway.
            with suppress(Exception):
                self._open.pop().close()

    def _find(self, table: str) -> tuple[str, str, dict[str, str]]:
        schemas = ", ".join(literal(schema) for schema in self.schemas)
        reader = self._reader(
            "SELECT table_schema::text s, table_name::text t, column_name::text c, data_type::text d "
            f"FROM information_schema.columns WHERE lower(table_name) = {literal(table)} "
            f"AND table_schema IN ({schemas}) ORDER BY ordinal_position"
        )
        rows = reader.read_all().to_pylist()
        self.close()
        for schema in self.schemas:
            types = {row["c"]: row["d"] for row in rows if row["s"] == schema}
            if types:
                return schema, next(row["t"] for row in rows if row["s"] == schema), types
        raise DataError(f"Expected the table {table} in {self.describe()}, but it is missing.")

    def _reader(self, query: str) -> Any:
        try:
            from adbc_driver_postgresql import dbapi
        except ImportError as error:
            raise DataError(
                "Expected the package adbc-driver-postgresql for Postgres, but it is not installed."
            ) from error
        try:
            connection = dbapi.connect(self.uri)
            self._open.append(connection)
            cursor = connection.cursor()
            self._open.append(cursor)
            cursor.execute(query)
            return cursor.fetch_record_batch()
        except dbapi.Error as error:
            raise DataError(f"Expected to read {self.describe()}, but it failed: {without_secrets(error)}") from error
