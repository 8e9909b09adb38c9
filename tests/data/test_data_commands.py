from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dynamask_mlflow.cli import main
from dynamask_mlflow.data import StayDataset


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands") / "hospital"
    done = _run("data", "synthesize", "--stays", 150, "--months", 2, "--seed", 5, "--out", folder)
    assert done.exit_code == 0, done.output
    return folder


def test_synthesize_build_describe(hospital: Path, tmp_path: Path) -> None:
    built = _run("data", "build", "--source", "synthetic", "--path", hospital, "--out", tmp_path / "set")
    assert built.exit_code == 0, built.output
    assert "150 stays in" in built.output
    assert "left the unit within 48 h" in built.output
    dataset = StayDataset.load(tmp_path / "set")
    assert dataset.digest in built.output
    described = _run("data", "describe", tmp_path / "set")
    assert "HeartRate" in described.output
    as_json = json.loads(_run("data", "describe", tmp_path / "set", "--json").output)
    assert as_json["digest"] == dataset.digest


def test_later_data_are_built_with_stored_statistics(hospital: Path, tmp_path: Path) -> None:
    arguments = ("data", "build", "--source", "synthetic", "--path", hospital)
    assert _run(*arguments, "--out", tmp_path / "first").exit_code == 0
    first = StayDataset.load(tmp_path / "first")
    (tmp_path / "statistics.json").write_text(first.preprocessing.to_json())
    done = _run(*arguments, "--preprocessing", tmp_path / "statistics.json", "--out", tmp_path / "second")
    assert done.exit_code == 0, done.output
    second = StayDataset.load(tmp_path / "second")
    assert second.preprocessing == first.preprocessing
    assert set(second.splits) == {"later"}


def test_a_failed_build_leaves_no_output(hospital: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "set"
    done = _run("data", "build", "--source", "mimic4", "--path", hospital, "--out", out)
    assert done.exit_code == 3
    assert "Expected" in done.output
    assert "Traceback" not in done.output
    assert not out.exists()


def test_strict_turns_warnings_into_errors_and_writes_nothing(hospital: Path, tmp_path: Path) -> None:
    arguments = (
        "--source",
        "synthetic",
        "--path",
        hospital,
        "--out",
        tmp_path / "set",
        "--features",
        "fit31",
    )
    done = _run("data", "build", *arguments, "--strict")
    assert done.exit_code == 3
    assert "HEMOGLOBINLACTATE" in done.output
    assert not (tmp_path / "set").exists()
    assert _run("data", "build", *arguments).exit_code == 0


def test_an_existing_dataset_needs_overwrite(hospital: Path, tmp_path: Path) -> None:
    arguments = ("data", "build", "--source", "synthetic", "--path", hospital, "--out", tmp_path / "set")
    assert _run(*arguments).exit_code == 0
    assert "--overwrite" in _run(*arguments).output
    assert _run(*arguments, "--overwrite").exit_code == 0


def test_a_column_without_its_name_is_refused(tmp_path: Path) -> None:
    done = _run("data", "build", "--source", "long", "--path", tmp_path, "--out", tmp_path / "x", "--column", "id")
    assert done.exit_code == 2
    assert "Expected NAME=OWN" in done.output
