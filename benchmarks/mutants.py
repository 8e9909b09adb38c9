"""Mutation testing of the core: are the formulas held by tests? `make mutants`, or with `--sample 60` a part of it.

A mutant is the package with one operator, comparison or number changed. It is killed if one of the tests that run the
changed line fails (`benchmarks/covering_tests.py` measures which these are). Each mutant runs in a process forked from
one that has loaded package and tests, and gets the changed code there: nothing on disk is touched.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from benchmarks.covering_tests import TESTS, CoveringTests, load, measure, save
from benchmarks.pages import write_between

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "dynamask_mlflow"
REASONS = Path(__file__).parent / "mutant_survivors.toml"
SUBPACKAGES = ("masks", "masks/change", "metrics", "audit/statistics")
# Of the tests that run a line, as many as take these seconds together without a mutant.
BUDGET = 10.0
# A mutant that computes this much longer than its tests do hangs.
HANGS = 4.0
FIRST = 12
_FAILED = (1, 2)
_NOT_COLLECTED = 4
_PASSED = 0
_COMPARE: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_BINARY: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


@dataclass(frozen=True)
class Mutant:
    """One change: in which file and line, the line as it was, the whole changed source, and where it is run."""

    path: Path
    line: int
    change: str
    before: str
    source: str
    lines: frozenset[int]

    @property
    def module(self) -> str:
        return ".".join(self.path.relative_to(REPOSITORY).with_suffix("").parts)

    @property
    def where(self) -> str:
        return str(self.path.relative_to(PACKAGE))

    @property
    def name(self) -> str:
        return f"{self.where}:{self.line} {self.change}"

    def tests(self, covering: CoveringTests) -> list[str]:
        """The tests that should notice. What is run at import, such as a constant, belongs to the whole file."""
        file = str(self.path.relative_to(REPOSITORY))
        found = covering.of_lines(file, set(self.lines)) if self.lines else covering.of_file(file)
        if not self.lines:
            for user in _importers(self.module):
                found = found | covering.of_file(user)
        return covering.within(found, self.path.stem, BUDGET)


def _importers(module: str) -> list[str]:
    """The files that import a module."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if f"from {module} import" in text:
            found.append(str(path.relative_to(REPOSITORY)))
    return found


def places() -> Iterator[tuple[Path, int]]:
    """Every place that can be changed: the file, and which node of its syntax tree."""
    for name in SUBPACKAGES:
        for path in sorted((PACKAGE / name).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            text = _text(tree)
            for number, node in enumerate(ast.walk(tree)):
                if _changed(node) is not None and id(node) not in text:
                    yield path, number


def mutant_at(path: Path, number: int) -> Mutant:
    """The mutant that has this node changed."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    node = next(islice(ast.walk(tree), number, None))
    new = _changed(node)
    assert new is not None
    before, line, lines = ast.unparse(node), int(getattr(node, "lineno", 0)), _run_with(tree, node)
    for name, value in vars(new).items():
        setattr(node, name, value)
    change = f"`{before}` -> `{ast.unparse(node)}`"
    return Mutant(path, line, change, text.splitlines()[line - 1].strip(), ast.unparse(tree), lines)


def _run_with(tree: ast.Module, node: ast.AST) -> frozenset[int]:
    """The lines that are run when the node is, or none if it is run at import."""
    inside, statement = False, None
    for each in _parents(tree, node):
        inside = inside or (isinstance(each, ast.FunctionDef) and node not in _signature(each))
        if isinstance(each, ast.stmt) and not isinstance(each, ast.FunctionDef | ast.ClassDef):
            statement = each
    if not inside or statement is None:
        return frozenset()
    own = range(int(getattr(node, "lineno", 0)), int(getattr(node, "end_lineno", 0)) + 1)
    return frozenset({statement.lineno, *own})


def _parents(tree: ast.AST, node: ast.AST) -> list[ast.AST]:
    """The nodes around a node, from the outermost."""
    for child in ast.iter_child_nodes(tree):
        if child is node:
            return [tree]
        found = _parents(child, node)
        if found:
            return [tree, *found]
    return []


def _signature(function: ast.FunctionDef) -> set[ast.AST]:
    """What of a function is run when it is defined."""
    parts = [*function.decorator_list, *function.args.defaults, *(d for d in function.args.kw_defaults if d)]
    return {inner for part in parts for inner in ast.walk(part)}


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


def ended(mutant: Mutant, covering: CoveringTests) -> dict[str, Any]:
    """The mutant's name, whether it was killed, and by how many tests it was tried."""
    tests = mutant.tests(covering)
    limit = 30 + HANGS * sum(covering.seconds[test] for test in tests)
    return {"name": mutant.name, "killed": bool(tests) and killed_by(mutant, tests, limit), "tests": len(tests)}


def killed_by(mutant: Mutant, tests: list[str], seconds: float) -> bool:
    """Whether one of the tests fails with the mutant in place; one that hangs counts as killed."""
    child = os.fork()
    if not child:
        _run_child(mutant, tests, seconds)
    end = time.monotonic() + 10 * seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            # With a module that can no longer be imported, no test is found.
            known = (_PASSED, *_FAILED, *(() if mutant.lines else (_NOT_COLLECTED,)))
            if code not in (*known, -signal.SIGXCPU, -signal.SIGSEGV, -signal.SIGABRT):
                sys.exit(f"Expected tests that pass or fail, but pytest ended with {code} for {tests}.")
            return code != _PASSED
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _run_child(mutant: Mutant, tests: list[str], seconds: float) -> None:
    import pytest

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    # Of CPU, so that a busy machine kills no mutant.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    put_in_place(mutant)
    # The most telling ones alone at first: most mutants need no more, and few files have to be collected.
    for part in (tests[:FIRST], tests[FIRST:]):
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *part])) if part else _PASSED
        if code != _PASSED:
            os._exit(code)
    os._exit(_PASSED)


def load_everything() -> None:
    """Import the tests and what they test: every mutant is forked from here and finds it loaded."""
    import pytest

    with Path(os.devnull).open("w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
        code = pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", *(str(REPOSITORY / t) for t in TESTS)])
    if code != _PASSED:
        sys.exit(f"Expected tests that can be collected, but pytest ended with {code}.")


def put_in_place(mutant: Mutant) -> None:
    """The mutant instead of its module: what is run at import afresh, a function's code wherever it is referred to."""
    if not mutant.lines:
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE.name or _is_test(name)]:
            del sys.modules[name]
        sys.meta_path.insert(0, _Changed(mutant))
        return
    module = importlib.import_module(mutant.module)
    changed = ModuleType(mutant.module)
    changed.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    sys.modules[mutant.module] = changed  # dataclasses look their module up
    try:
        exec(compile(mutant.source, str(mutant.path), "exec"), changed.__dict__)
    finally:
        sys.modules[mutant.module] = module
    replaced = _functions(changed)
    for name, function in _functions(module).items():
        function.__code__ = replaced[name].__code__


def _is_test(name: str) -> bool:
    return (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{REPOSITORY}/tests/")


def _functions(module: ModuleType) -> dict[str, FunctionType]:
    """The functions that a module defines, methods and properties included."""
    found: dict[str, FunctionType] = {}

    def add(value: Any) -> None:
        if isinstance(value, property):
            add(value.fget)
        for inner in ("__func__", "func", "__wrapped__"):  # class methods, cached properties, decorated functions
            if not isinstance(value, type) and hasattr(value, inner):
                add(getattr(value, inner))
        # What a dataclass generates has no file.
        if isinstance(value, FunctionType) and value.__code__.co_filename.endswith(".py"):
            if value.__module__ == module.__name__:
                found[value.__qualname__] = value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for member in vars(value).values():
                if not isinstance(member, type):
                    add(member)

    for value in list(vars(module).values()):
        add(value)
    return found


@dataclass(frozen=True)
class Survivor:
    mutant: Mutant
    covered: bool


def figures(tried: list[Mutant], alive: list[Survivor], number: int, seed: int) -> str:
    """What docs/mutants.md holds between the marks."""
    killed = len(tried) - len(alive)
    low, high = wilson(killed, len(tried))
    known = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    subpackages = ", ".join(f"`{name}/`" for name in SUBPACKAGES)
    same = sum(_why(each, known).startswith("equivalent") for each in alive)
    lines = [
        f"Of {number} places in {subpackages} {len(tried)} were changed, drawn by seed {seed}: **{killed} killed, "
        f"{killed / len(tried):.0%}** (between {low:.0%} and {high:.0%}; Wilson, 95 %). "
        f"Of the {len(alive)} survivors {same} are equivalent.",
        f"`python -m benchmarks.mutants --sample {len(tried)} --seed {seed} --page docs/mutants.md` again.",
        "",
        "| survivor | change | why |",
        "|---|---|---|",
        *(_row(each, known) for each in alive),
    ]
    return "\n".join(lines)


def wilson(killed: int, tried: int) -> tuple[float, float]:
    """The 95 % interval of a share.

    >>> [round(end, 2) for end in wilson(21, 26)]
    [0.62, 0.91]
    """
    z, share = 1.96, killed / tried
    middle = (share + z * z / (2 * tried)) / (1 + z * z / tried)
    half = z / (1 + z * z / tried) * (share * (1 - share) / tried + z * z / (4 * tried * tried)) ** 0.5
    return middle - half, middle + half


def remembered(results: Path | None) -> dict[str, dict[str, Any]]:
    """What was tried before: the mutant's name -> how it ended."""
    if results is None or not results.is_file():
        return {}
    records = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {record["name"]: record for record in records}


def _row(survivor: Survivor, known: dict[str, list[dict[str, str]]]) -> str:
    mutant = survivor.mutant
    change = f"{' '.join(mutant.change.split())} in `{mutant.before}`".replace("|", "\\|")
    return f"| `{mutant.where}:{mutant.line}` | {change} | {_why(survivor, known)} |"


def _why(survivor: Survivor, known: dict[str, list[dict[str, str]]]) -> str:
    mutant = survivor.mutant
    for reason in known.get(mutant.where, ()):
        if (reason["change"], reason["line"]) == (mutant.change.replace("`", ""), mutant.before):
            return reason["why"]
    return "not looked into" if survivor.covered else "no quick test runs this line"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, default=None)
    parser.add_argument("--covering", type=Path, help="Keep which tests run which line in this file, or take it.")
    parser.add_argument("--results", type=Path, help="Note each mutant in this file, and try none again that is there.")
    parser.add_argument("--only", default="", help="Only files whose path holds this text.")
    options = parser.parse_args()
    sys.path.insert(0, str(REPOSITORY))
    covering = load(options.covering) if options.covering and options.covering.is_file() else measure()
    if options.covering:
        save(covering, options.covering)
    load_everything()
    everything = list(places())
    chosen = random.Random(options.seed).sample(everything, min(options.sample, len(everything)))
    tried: list[Mutant] = []
    alive: list[Survivor] = []
    before = remembered(options.results)
    for place, found in enumerate(each for each in chosen if options.only in str(each[0])):
        mutant = mutant_at(*found)
        tried.append(mutant)
        record = before.get(mutant.name) or ended(mutant, covering)
        if options.results is not None and mutant.name not in before:
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        if not record["killed"]:
            alive.append(Survivor(mutant, record["tests"] > 0))
        state = "killed" if record["killed"] else "survived"
        print(f"{place + 1}/{len(chosen)} {state} {mutant.name} ({record['tests']} tests)", flush=True)
        if options.page is not None:
            write_between(options.page, "mutants", f"\n{figures(tried, alive, len(everything), options.seed)}\n\n")
    print(f"{1 - len(alive) / max(len(tried), 1):.0%} of {len(tried)} killed")


if __name__ == "__main__":
    main()
