"""duckdb with a memory limit: the one place that opens connections and translates their errors."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dynamask_mlflow.data.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BATCH_ROWS = 250_000


class Engine:
    """An in-memory database that spills to a folder of its own, which disappears with it."""

    def __init__(self, memory_limit: str = "512MB", threads: int | None = None) -> None:
        import duckdb

        self._spill = tempfile.mkdtemp(prefix="dynamask-duckdb-")
        self.connection = duckdb.connect(":memory:")
        # Row order is not needed (sums are exact integers), and keeping it would buffer whole tables.
        self.connection.execute("SET enable_progress_bar = false")  # it writes to stdout, into the JSON of a command
        self.connection.execute("SET preserve_insertion_order = false")
        self.connection.execute(f"SET temp_directory = '{self._spill}'")
        try:
            self.connection.execute(f"SET memory_limit = '{memory_limit}'")
        except duckdb.Error as error:
            self.close()
            raise DataError(f"Expected a memory limit such as '512MB', but got {memory_limit!r}.") from error
        if threads is not None:
            self.connection.execute(f"SET threads = {int(threads)}")
        self._names = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def new_name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}_{self._names}"

    def register(self, stem: str, data: Any) -> str:
        """Make an Arrow table, a reader or a DataFrame visible to SQL; a reader can be scanned once."""
        name = self.new_name(stem)
        self.connection.register(name, data)
        return name

    def execute(self, sql: str, where: str) -> None:
        with translated(where):
            self.connection.execute(sql)

    def rows(self, sql: str, where: str) -> list[tuple[Any, ...]]:
        with translated(where):
            return list(self.connection.execute(sql).fetchall())

    def frame(self, sql: str, where: str) -> pd.DataFrame:
        with translated(where):
            table: pa.Table = self.connection.sql(sql).to_arrow_table()
            frame: pd.DataFrame = table.to_pandas()
        return frame

    def batches(self, sql: str, where: str) -> Iterator[pa.RecordBatch]:
        """Stream a result in Arrow batches; nothing is held but the batch at hand."""
        with translated(where):
            yield from self.connection.sql(sql).to_arrow_reader(BATCH_ROWS)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Name the file or table in errors of the engine, which otherwise speak of SQL."""
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split("LINE 1:")[0].split())
        raise DataError(f"Expected to read {where}, but it failed: {text}") from error


def quoted(name: str) -> str:
    """An SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """An SQL literal of a number or a string."""
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
