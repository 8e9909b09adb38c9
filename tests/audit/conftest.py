from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mlflow
import pytest
import torch
from audit_hospital import SETTINGS, Lactate, hospital, register
from stores import new_store

from dynamask_mlflow.audit import AuditConfig, AuditSource, build_reference


@dataclass(frozen=True)
class Place:
    """A store of MLflow with a registered model, its reference of January, and the data."""

    folder: Path
    data: str
    shards: str
    config: AuditConfig
    uri: str

    def options(self, **changes: object) -> dict:
        return {"config": self.config.with_options(**changes), "store": self.shards}

    def source(self, data: str, window: str, **more: str) -> AuditSource:
        return AuditSource(
            **{"model": "models:/icu@champion", "data": data, "window": window, "store": self.shards, **more}
        )

    def command(self, *arguments: str) -> list[str]:
        return ["audit", *arguments, *self._where()]

    def gate_command(self, *arguments: str) -> list[str]:
        return ["gate", *arguments, *self._where()]

    def _where(self) -> list[str]:
        settings = [f"--set={key}={str(value).lower()}" for key, value in SETTINGS.items()]
        return ["--data", self.data, "--store", self.shards, *settings]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once: registering, explaining the reference."""
    folder = tmp_path_factory.mktemp("audits")
    torch.set_num_threads(1)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(new_store(folder))
    mlflow.create_experiment("models", artifact_location=str(folder / "artifacts"))
    mlflow.create_experiment("dynamask-audits", artifact_location=str(folder / "artifacts"))
    mlflow.set_experiment("models")
    register(folder, Lactate())
    data = str(hospital().save(folder / "icu"))
    build_reference(
        "models:/icu@champion", data, "2026-01", config=AuditConfig(**SETTINGS), store=str(folder / "shards")
    )
    mlflow.set_tracking_uri(before)
    mlflow.tracking.fluent._active_experiment_id = None
    return folder


@pytest.fixture
def place(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The same with a database and shards of its own."""
    shutil.copy(prepared / "mlflow.db", tmp_path / "mlflow.db")
    shutil.copytree(prepared / "shards", tmp_path / "shards")
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("models")
    yield Place(tmp_path, str(prepared / "icu"), str(tmp_path / "shards"), AuditConfig(**SETTINGS), uri)
    mlflow.set_tracking_uri(before)
    mlflow.tracking.fluent._active_experiment_id = None
