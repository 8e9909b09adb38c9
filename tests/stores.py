"""Empty MLflow stores: the migrations of a new database take seconds of computing, a copy of their outcome none."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path


@cache
def _migrated() -> bytes:
    import mlflow

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        mlflow.MlflowClient(f"sqlite:///{path}", f"sqlite:///{path}").search_experiments()
        return path.read_bytes()


def new_store(folder: Path, name: str = "mlflow.db") -> str:
    """The address of a new store in a folder, with the artifacts of its default experiment beside it."""
    path = folder / name
    path.write_bytes(_migrated())
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE experiments SET artifact_location = ?", [(folder / "mlruns" / "0").as_uri()])
    return f"sqlite:///{path}"
