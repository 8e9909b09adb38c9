"""The code cells of every notebook run in order; the last value of a cell need not be shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from stores import new_store

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    before = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    folder = tmp_path_factory.mktemp("notebooks")
    uri = new_store(folder)
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    for name in ("dynamask", "dynamask-audits", "notebooks"):
        mlflow.create_experiment(name, artifact_location=(folder / name).as_uri())
    yield uri
    mlflow.set_tracking_uri(before[0])
    mlflow.set_registry_uri(before[1])


def test_there_are_five() -> None:
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(store)
    mlflow.set_registry_uri(store)
    mlflow.set_experiment("notebooks")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        assert not cell.get("outputs"), "Notebooks are stored without outputs."
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}[{number}]", "exec"), names)


def test_notebooks_are_valid_and_say_what_they_do() -> None:
    for path in NOTEBOOKS:
        document = json.loads(path.read_text(encoding="utf-8"))
        assert document["nbformat"] == 4
        assert document["cells"][0]["cell_type"] == "markdown"
        assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
