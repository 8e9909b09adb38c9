"""No test is skipped in silence: every skip in the suite is on the list, and any other fails the run."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import skip_list

TESTS = Path(__file__).parents[1]


def text(node: ast.AST) -> str:
    """The constant parts of a text."""
    return "".join(str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant))


def skips(source: str) -> list[str]:
    """What each skip of a source gives as its reason, or the module it asks for."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if name.endswith(("pytest.skip", "mark.skip", "mark.skipif", "mark.xfail")):
            found.append(text(given.get("reason", node)))
        elif name.endswith("importorskip"):
            found.append(text(node.args[0]))
    return found


def is_known(reason: str) -> bool:
    listed = reason in skip_list.LIST["required"] or skip_list.entry_for(reason) is not None
    return listed or skip_list.entry_for(f"could not import {reason!r}") is not None


def test_every_skip_is_on_the_list() -> None:
    for path in TESTS.rglob("*.py"):
        unknown = [reason for reason in skips(path.read_text()) if not is_known(reason)]
        assert not unknown, f"Expected skips of tests/allowed_skips.toml, but {path.name} has others: {unknown}"


def test_the_walk_sees_skips() -> None:
    source = """
pytest.importorskip("duckdb")
pytest.skip(f"{name} is not at {root}; set it")
mark = pytest.mark.skipif(True, reason="no camel")
"""
    assert skips(source) == ["duckdb", " is not at ; set it", "no camel"]


@pytest.mark.parametrize(("reason", "code"), [("no camel on this machine", 1), ("no Chromium on this machine", 0)])
def test_a_skip_that_is_not_on_the_list_fails_the_run(tmp_path: Path, reason: str, code: int) -> None:
    (tmp_path / "test_one.py").write_text(f"import pytest\n\ndef test_it():\n    pytest.skip({reason!r})\n")
    ini = tmp_path / "pytest.ini"
    ini.write_text("[pytest]\n")
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        str(ini),
        "-p",
        "skip_list",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == code, done.stdout
    expected = "Expected to run, but was skipped" if code else "put chromium or google-chrome on the PATH"
    assert expected in done.stdout
