"""Hostile names through every command: one readable line, exit code 2 or 3, nothing written, no secret shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import mlflow
import pytest
from click.testing import CliRunner
from stores import new_store

from dynamask_mlflow._printable import printable
from dynamask_mlflow.cli import main

PASSWORD = "s3cr3t-Pw"
HOSTILE = [
    "it's", "two\nlines\rx", "x" * 10_000, "../../etc/passwd", "\u202eabc\u0007", "$(touch pwned)`touch pwned`",
    "models:/a'b/1", "%s{}{0}", "'; drop table runs; --", "<script>alert(1)</script>", "\x1b[31mred",
    f"http://ann:{PASSWORD}@127.0.0.1:9/x",
]  # fmt: skip
# A server, a scheduler and experiments do their work whatever a name is.
LEFT_OUT = ("demo", "ui", "airflow-demo", "experiment", "completion", "doctor")
WRITES = ("out", "output", "store", "folder")
VALUES = {"integer": "3", "integer range": "3", "float": "1", "float range": ".5"}


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        if found is not None and (path or name not in LEFT_OUT):
            yield from _leaves(found, (*path, name))


def _cases() -> Iterator[tuple[tuple[str, ...], list[str], str]]:
    """(path, arguments with HERE where the name goes, the option)."""
    for path, command in _leaves(main):
        given = [each for each in command.params if not (isinstance(each, click.Option) and each.is_flag)]
        # Settings by flags share one reader; the others are what names things.
        named = [each for each in given if each.required and each.type.name in ("text", "path", "directory", "file")]
        for hit in named:
            if hit.name in WRITES:
                continue
            arguments = []
            for each in given:
                if each is not hit and not each.required:
                    continue
                choices = getattr(each.type, "choices", None)
                value = "HERE" if each is hit else choices[0] if choices else VALUES.get(each.type.name, "nowhere")
                arguments += [each.opts[0], value] if isinstance(each, click.Option) else [value]
            if any(each.name == "processes" for each in given):
                arguments += ["--processes", "1"]
            yield path, arguments, str(hit.name)


CASES = list(_cases())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_store(tmp_path_factory.mktemp("mlflow"))


@pytest.mark.parametrize(("path", "arguments", "option"), CASES, ids=[f"{' '.join(p)} {o}" for p, _, o in CASES])
def test_a_hostile_name_gives_one_readable_line(
    path: tuple[str, ...],
    arguments: list[str],
    option: str,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for name in HOSTILE:
        typed = [name if value == "HERE" else value for value in arguments]
        mlflow.set_tracking_uri(address)
        done = CliRunner().invoke(main, [*path, *typed])
        assert isinstance(done.exception, SystemExit | None), (name[:40], done.exception)
        assert done.exit_code in (2, 3) or "There is none" in done.output, (name[:40], done.output)
        assert PASSWORD not in done.output
        assert not set("\x1b\u202e\x07\r") & set(done.output)
        assert len(done.output) < 5000
        if done.exit_code == 3:
            assert len(done.output.strip().splitlines()) == 1, done.output
        assert not any(here.iterdir()), (name[:40], list(here.iterdir()))


def test_an_error_keeps_its_exit_code_when_a_secret_is_taken_out_of_it() -> None:
    """Exit code 1 means drift to whoever runs audits."""
    done = CliRunner().invoke(main, ["explain", "models:/m/1", f"http://ann:{PASSWORD}@127.0.0.1:9/x.npz\x1b[31m"])
    assert done.exit_code == 3
    assert PASSWORD not in done.output


def test_long_texts_lose_their_middle() -> None:
    shown = printable("a" * 5000 + "z")
    assert len(shown) <= 2000
    assert shown.endswith("az")
