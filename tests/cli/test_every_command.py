"""What holds for every command: an example in its help, errors in one line, one exit code for errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import mlflow
import pytest
from click.testing import CliRunner
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST
from stores import new_store

from dynamask_mlflow.cli import main
from dynamask_mlflow.cli.common import CommandError, reported


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _leaves(found, (*path, name))
    else:
        yield path


@pytest.mark.parametrize("path", list(_leaves(main)), ids=" ".join)
def test_the_help_of_every_command_shows_an_example(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--help"], prog_name="dynamask-mlflow")
    assert done.exit_code == 0
    lines = [line.strip() for line in done.output.splitlines() if not line.startswith("Usage:")]
    assert any(f"dynamask-mlflow {' '.join(path)}" in line for line in lines), done.output


NO_JSON = {"demo", "ui", "completion"}  # their result is text, a server, a script; that of experiments may be a page


def test_every_command_that_gives_a_result_prints_it_as_json() -> None:
    without = set()
    for path in _leaves(main):
        command: click.Command = main
        for name in path:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), name) or command
        if path[0] != "experiment" and not any("--json" in option.opts for option in command.params):
            without.add(" ".join(path))
    assert without <= NO_JSON


@pytest.mark.slow
def test_tables_to_a_registered_model_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    small = ["--units", "4", "--epochs", "1", "--tracking-uri", new_store(tmp_path)]
    found = [
        json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
        for command in (
            ["data", "synthesize", "--stays", "200", "--months", "2", "--out", "hospital"],
            ["data", "build", "--source", "synthetic", "--path", "hospital", "--out", "icu"],
            ["train", "icu", *small],
        )
    ]
    assert found[0]["stays"] == 200
    assert found[0]["calendar"] == []
    assert found[1]["shape"][1:] == [48, 32]
    assert found[1]["stays_in"] == 200
    assert 0 <= found[2]["scores"]["auroc"] <= 1
    assert found[2]["model_uri"].startswith("models:/")


@pytest.mark.parametrize(
    ("arguments", "way_out"),
    [
        (["data", "describe", "nowhere"], "Expected"),
        (["train", "nowhere"], "Expected"),
        (["evaluate", "models:/m/1", "nowhere.npz"], "Accepted: a folder of `data build`"),
        (["explain", "models:/m/1", "nowhere.npz"], "Accepted: a folder of `data build`"),
        (["explain", "models:/m/1", "x.npz", "--out", "masks.txt"], "--out to end in .npz"),
        (["ui", "--folder", "nowhere"], "run the demo first"),
        (["sign", "nowhere"], "Expected"),
    ],
)
def test_an_error_is_one_line_with_the_way_out(
    arguments: list[str], way_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 3
    assert len(done.output.strip().splitlines()) == 1
    assert way_out in done.output
    assert not any(tmp_path.iterdir())


def test_what_is_not_found_names_the_store_that_was_asked(tmp_path: Path) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    with pytest.raises(CommandError) as told, reported():
        raise MlflowException("Run with id=abc not found", RESOURCE_DOES_NOT_EXIST)
    assert f"(in {mlflow.get_tracking_uri()}; --tracking-uri or MLFLOW_TRACKING_URI names another store)" in str(
        told.value
    )


@pytest.mark.parametrize("command", ["explain", "evaluate"])
@pytest.mark.parametrize("model", ["icu", "models:/icu"])
def test_what_is_no_address_of_a_model_is_told_the_forms(command: str, model: str) -> None:
    done = CliRunner().invoke(main, [command, model, "x.npz"])
    assert done.exit_code == 3
    assert "models:/NAME/VERSION, models:/NAME@ALIAS" in " ".join(done.output.split())


def test_an_error_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["explain", "models:/m/1", "nowhere.npz", "--json"])
    assert done.exit_code == 3
    assert json.loads(done.output)["state"] == "error"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_scripts_call_the_program(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert "_DYNAMASK_MLFLOW_COMPLETE" in done.output


def test_the_shell_completes_commands_and_options() -> None:
    from click.shell_completion import ShellComplete

    completer = ShellComplete(main, {}, "dynamask-mlflow", "_DYNAMASK_MLFLOW_COMPLETE")
    assert {item.value for item in completer.get_completions([], "ex")} == {"explain", "experiment"}
    assert "--sampling" in {item.value for item in completer.get_completions(["evaluate"], "--s")}


def test_doctor_says_what_works_and_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DYNAMASK_DATASET", str(tmp_path / "nowhere"))
    mlflow.set_tracking_uri("http://127.0.0.1:9")
    done = CliRunner().invoke(main, ["doctor", "--json"])
    found = {(check["name"], check["state"]): check["detail"] for check in json.loads(done.output)}
    assert "torch" in found["required", "ok"]
    assert found["masks", "ok"] == "a planted cell is found"
    assert "does not answer" in found["tracking", "broken"]
    assert "no built dataset" in found["dags", "broken"]
    assert done.exit_code == 3
    assert not any(tmp_path.iterdir())
