from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
import torch
from small_evaluations import saved_classifier
from small_networks import GRUClassifier, trained_classifier
from stores import new_store


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Folders that tests use as spools are not noted in the user's own list."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def network() -> GRUClassifier:
    return trained_classifier()


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a store that any test may copy."""
    folder = tmp_path_factory.mktemp("store")
    new_store(folder)
    return folder / "mlflow.db"


@pytest.fixture
def clean_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """MLflow keeps its address and experiment in globals and in the environment; leave them as they were."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    before = mlflow.get_tracking_uri()
    yield
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(before)
    mlflow.tracking.fluent._active_experiment_id = None


@pytest.fixture
def store(empty_store: Path, tmp_path: Path, clean_mlflow: None) -> Path:
    """A store of its own for one test, without a server; artifacts beside it."""
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    mlflow.set_experiment("test")
    return tmp_path


@pytest.fixture(scope="session")
def saved(network: GRUClassifier, tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_classifier(network, tmp_path_factory)
