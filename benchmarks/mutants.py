"""Mutation testing of the core: are the formulas held by tests? `make mutants`, or with `--sample 60` a part of it.

A mutant is the package with one operator, comparison or number changed. It is killed if the tests of its module fail.
Each mutant runs in a process forked from one that has loaded the libraries, with the changed module in place of its
file: nothing on disk is touched.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "dynamask_mlflow"
ROOMS = ("masks", "metrics", "audit/statistics")
SECONDS = 240
_COMPARE: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_BINARY: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


@dataclass(frozen=True)
class Mutant:
    """One change: in which file and line, what it says there, and the whole changed source."""

    path: Path
    line: int
    change: str
    source: str

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(REPOSITORY).with_suffix("").parts)

    @property
    def tests(self) -> list[str]:
        """The tests that should notice: those of the module, then those of its room."""
        tests = REPOSITORY / "tests"
        if self.path.parent.name == "metrics":
            return [str(tests / "metrics")]
        if self.path.parent.name == "statistics":
            names = ("test_audit_statistics.py", "test_audit_predictions.py", "test_audit_verdict.py")
            return [str(tests / "audit" / name) for name in names]
        own = tests / "masks" / f"test_{self.path.stem}.py"
        common = ("test_sequence_answer.py", "test_every_step.py", "test_explain.py")
        found = [own, *(tests / "masks" / name for name in common)]
        return list(dict.fromkeys(str(path) for path in found if path.is_file()))


def places() -> Iterator[tuple[Path, int]]:
    """Every place that can be changed: the file, and which node of its syntax tree."""
    for room in ROOMS:
        for path in sorted((PACKAGE / room).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            text = _text(tree)
            for number, node in enumerate(ast.walk(tree)):
                if _changed(node) is not None and id(node) not in text:
                    yield path, number


def mutant_at(path: Path, number: int) -> Mutant:
    """The mutant that has this node changed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = next(islice(ast.walk(tree), number, None))
    new = _changed(node)
    assert new is not None
    before = ast.unparse(node)
    for name, value in vars(new).items():
        setattr(node, name, value)
    return Mutant(path, int(getattr(node, "lineno", 0)), f"`{before}` -> `{ast.unparse(node)}`", ast.unparse(tree))


def _changed(node: ast.AST) -> ast.AST | None:
    """The node with one thing changed, or None where there is nothing to change."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        return ast.Compare(node.left, [_COMPARE[type(node.ops[0])]()], node.comparators)
    if (
        isinstance(node, ast.BinOp)
        and type(node.op) in _BINARY
        and not isinstance(node.left, ast.Constant | ast.JoinedStr)
    ):
        return ast.BinOp(node.left, _BINARY[type(node.op)](), node.right)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return ast.Constant(node.value + 1 if isinstance(node.value, int) else node.value * 2 + 0.1)
    return None


def _text(tree: ast.Module) -> set[int]:
    """The nodes of annotations and of messages of errors, on which no formula depends."""
    parts: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.JoinedStr):
            parts.append(node)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
    return {id(inner) for part in parts if part is not None for inner in ast.walk(part)}


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.mutant.module:
            return None
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=self)

    def create_module(self, spec: Any) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.mutant.source, str(self.mutant.path), "exec"), module.__dict__)


def survives(mutant: Mutant | None, tests: list[str]) -> bool:
    """Whether the tests pass with the mutant in place; one that hangs counts as killed."""
    child = os.fork()
    if not child:
        import pytest

        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        if mutant is not None:
            sys.meta_path.insert(0, _Changed(mutant))
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _sound(known: dict[tuple[str, ...], bool], tests: list[str]) -> bool:
    """Whether the tests pass without a mutant; asked once."""
    key = tuple(tests)
    if key not in known:
        known[key] = survives(None, tests)
    return known[key]


def page(tried: list[Mutant], alive: list[Mutant], number: int, seed: int) -> str:
    killed = 1 - len(alive) / len(tried)
    lines = [
        "# Mutation testing of the core",
        "",
        f"{len(tried)} of {number} mutants of `masks/`, `metrics/` and `audit/statistics/`, drawn by seed {seed}: "
        f"{killed:.0%} were killed by the tests of their module. Again: `make mutants` "
        "(`benchmarks/mutants.py --sample N --seed S --page docs/mutants.md`).",
        "",
        "A mutant has one comparison, operator or number changed. Only the tests of its module and a few of its room "
        "are run, not the whole suite: a survivor may still be killed by the floors of `tests/masks/test_quality.py` "
        "or by the tests of the evaluator.",
        "",
        "| survivor | change |",
        "|---|---|",
        *(f"| `{m.path.relative_to(PACKAGE)}:{m.line}` | {m.change.replace('|', chr(92) + '|')} |" for m in alive),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, default=None)
    options = parser.parse_args()
    sys.path.insert(0, str(REPOSITORY))
    for name in ("hypothesis", "pandas", "pytest", "scipy.stats", "torch"):
        importlib.import_module(name)
    everything = list(places())
    chosen = random.Random(options.seed).sample(everything, min(options.sample, len(everything)))
    sound: dict[tuple[str, ...], bool] = {}
    tried: list[Mutant] = []
    alive: list[Mutant] = []
    for place, found in enumerate(chosen):
        mutant = mutant_at(*found)
        tests = mutant.tests
        if not _sound(sound, tests):
            sys.exit(f"Expected tests that pass without a mutant, but {tests} fail.")
        tried.append(mutant)
        if survives(mutant, tests):
            alive.append(mutant)
        where = f"{mutant.path.relative_to(PACKAGE)}:{mutant.line}"
        state = "survived" if alive and alive[-1] is mutant else "killed"
        print(f"{place + 1}/{len(chosen)} {state} {where} {mutant.change}", flush=True)
        if options.page is not None:
            options.page.write_text(page(tried, alive, len(everything), options.seed), encoding="utf-8")
    print(f"{1 - len(alive) / max(len(tried), 1):.0%} of {len(tried)} killed")


if __name__ == "__main__":
    main()
