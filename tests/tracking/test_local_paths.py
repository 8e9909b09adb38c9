"""An address of another kind is refused for data, store and spool; it never becomes a folder of that name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynamask_mlflow._paths import local_path
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.shards import checked_store
from dynamask_mlflow.audit.windows import find_rows, parse_window
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.sequences import as_sequences

ELSEWHERE = [
    "s3://bucket/x",
    "S3://bucket/x",
    "gs://bucket/x",
    "abfss://c@a.dfs.core.windows.net/x",
    "hdfs://n/x",
    "dbfs:/x",
    "s3:/bucket/x",
    "https://u:hunter2@host/x",
    "postgresql://u:hunter2@host/db",
    "runs:/abc/x",
    "models:/m/1",
    "file://other-host/x",
    "file:relative/x",
    " s3://bucket/x",
    "s3\u200b://bucket/x",
]


@pytest.mark.parametrize("address", [*ELSEWHERE, "", "a\0b"])
def test_other_kinds_of_address_are_refused(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="Expected data to be a path") as raised:
        local_path(address, "data")
    assert "hunter2" not in str(raised.value)
    with pytest.raises(ValueError, match="spool"):
        EvaluationConfig(spool=address)
    with pytest.raises(ValueError, match="Expected"):
        as_sequences(np.zeros((1, 2, 2))).save(address)
    with pytest.raises(AuditError, match="data"):
        find_rows(address, parse_window("all"))
    if address:
        with pytest.raises(AuditError, match="store"):
            checked_store(address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("data/icu", "data/icu"),
        ("/data/icu", "/data/icu"),
        ("file:///data/icu", "/data/icu"),
        ("file://localhost/data/icu", "/data/icu"),
        ("file:/data/icu", "/data/icu"),
        ("odd:name", "odd:name"),
        ("C:/data", "C:/data"),
        (Path("data") / "icu", "data/icu"),
    ],
)
def test_paths_of_this_machine_are_taken(address: str, path: str) -> None:
    assert local_path(address, "data") == Path(path)
