"""Which code a trial's numbers came from: a digest of the definitions that its case, its metrics and its method reach.

Definitions are followed by name through the syntax trees of the package, so that a comment, a docstring or a
neighbouring function changes nothing, and a rival's digest does not feel the engine of nested masks.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import dynamask_mlflow
from dynamask_mlflow.experiments.protocol import Experiment
from dynamask_mlflow.masks.registry import method_location

_PACKAGE = dynamask_mlflow.__name__
_ROOT = Path(str(dynamask_mlflow.__file__)).parent
_JUDGED_BY = (f"{_PACKAGE}.experiments", f"{_PACKAGE}.metrics")
_ENGINE = f"{_PACKAGE}.masks"
# Algorithm 1 stands on these alone; what else it takes from the engine is fixed by tests against the formulas.
_PAPER = (f"{_ENGINE}.paper", f"{_ENGINE}.objective")

Symbol = tuple[str, str]
"""A module and a name in it."""


@dataclass(frozen=True)
class _Module:
    """The top-level statements by the name they define, and what imported names stand for."""

    statements: Mapping[str, tuple[ast.stmt, ...]]
    imported: Mapping[str, Symbol]


def code_digest(experiment: Experiment, method: str) -> str:
    """Equal digests: the same code made the numbers of this method in this experiment, with the same settings.

    Files are read once a process: what is edited while an experiment runs is not what it runs.
    """
    roots = [root for part in (experiment.make_case, experiment.score, experiment.explain) for root in _symbol(part)]
    texts = dict(_reached(roots, _JUDGED_BY))
    preset = experiment.preset(method)
    location = method_location(preset.method)
    if location is not None:
        module, _, name = location.partition(":")
        if module == _PAPER[0]:
            texts |= _reached([(module, name)], _PAPER)
        elif module.startswith(_ENGINE):
            texts |= _engine()
        else:
            texts |= _reached([(module, name)], (module.rpartition(".")[0], _PAPER[1]))
    options = json.dumps({"method": preset.method, **preset.options}, sort_keys=True, default=str)
    lines = [f"{name}\n{text}" for name, text in sorted(texts.items())]
    return hashlib.sha256("\n".join([options, *lines]).encode()).hexdigest()[:16]


@cache
def _engine() -> dict[str, str]:
    """All of it but Algorithm 1 and the list of names."""
    files = [file for file in (_ROOT / "masks").glob("*.py") if file.stem not in ("paper", "registry")]
    return {file.name: _text(ast.parse(file.read_text(encoding="utf-8"))) for file in files}


def _symbol(function: Callable[..., Any] | None) -> Iterator[Symbol]:
    """Where a function is defined; partial applications are seen through, other callables are their class."""
    while isinstance(function, partial):
        function = function.func
    if function is not None:
        owner = function if hasattr(function, "__qualname__") else type(function)
        yield owner.__module__, owner.__qualname__.partition(".")[0]


def _reached(roots: list[Symbol], rooms: tuple[str, ...]) -> dict[str, str]:
    """The text of every definition in these rooms that the roots use, directly or through others."""
    found: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        module, name = waiting.pop()
        key = f"{module}:{name}"
        parsed = _parse(module) if module.startswith(rooms) else None
        if parsed is None or key in found:
            continue
        if name in parsed.imported and name not in parsed.statements:
            waiting.append(parsed.imported[name])
            continue
        statements = parsed.statements.get(name, ())
        found[key] = "\n".join(_text(statement) for statement in statements)
        for statement in statements:
            waiting += _used(statement, module, {**parsed.imported, **_imports(statement)})
    return found


def _used(statement: ast.stmt, module: str, imported: Mapping[str, Symbol]) -> Iterator[Symbol]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            origin, name = imported[node.value.id]
            yield f"{origin}.{name}", node.attr
        if isinstance(node, ast.Name):
            yield imported.get(node.id, (module, node.id))


@cache
def _parse(module: str) -> _Module | None:
    place = _ROOT.joinpath(*module.split(".")[1:]) if module.split(".")[0] == _PACKAGE else None
    if place is None:
        return None
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    statements: dict[str, tuple[ast.stmt, ...]] = {}
    for statement in tree.body:
        for name in _defines(statement):
            statements[name] = (*statements.get(name, ()), statement)
    return _Module(statements, _imports(*tree.body))


def _defines(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            # NAMES["key"] = ... defines a part of NAMES.
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _imports(*statements: ast.stmt) -> dict[str, Symbol]:
    """What names imported anywhere in these statements stand for, those of the package alone."""
    names: dict[str, Symbol] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == _PACKAGE:
                names |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
    return names


def _text(tree: ast.AST) -> str:
    """The syntax tree as text, without docstrings, comments and layout."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)
