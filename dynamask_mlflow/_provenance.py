"""What a result was computed from, as digests: of content, of code, of the libraries and of the runtime.

Code is followed definition by definition through the syntax trees of the package, from where a computation begins: a
comment, a docstring, the layout or a neighbouring function changes nothing, an edit of anything that is used does.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamask_mlflow._version import __version__

if TYPE_CHECKING:
    import torch

Symbol = tuple[str, str]
"""A module and a name in it."""

PACKAGE = __name__.partition(".")[0]
WEIGHTS = "weights"
"""The name of the weights among the parts of a runtime."""
_ROOT = Path(__file__).parent


def digest(value: Any) -> str:
    """Sixteen hexadecimal digits of a JSON-able value; what JSON does not know counts by its text.

    >>> digest({"b": 1, "a": (2, 3)}) == digest({"a": [2, 3], "b": 1})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def versions(*libraries: str) -> dict[str, str]:
    """Installed versions of Python, of this package and of some libraries; those that are not installed are left out.

    >>> sorted(versions("numpy", "not-a-library"))
    ['dynamask_mlflow', 'numpy', 'python']
    """
    found = ((name, _installed(name)) for name in libraries)
    return {
        "python": platform.python_version(),
        PACKAGE: __version__,
        **{name: number for name, number in found if number is not None},
    }


@cache
def _installed(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def runtime_of(network: torch.nn.Module, device: torch.device) -> dict[str, str]:
    """With what a fit was computed: libraries, processor, precision, and a digest of the weights."""
    import numpy as np
    import torch

    on_cuda = device.type == "cuda"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name(device) if on_cuda else device.type,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "precision": torch.get_float32_matmul_precision(),
        "threads": str(torch.get_num_threads()),
        WEIGHTS: weights_digest(network),
    }


def weights_digest(network: torch.nn.Module) -> str:
    """Of all parameters and buffers in their order; names are left out, for exports rename them."""
    import torch

    sha = hashlib.sha256()
    for tensor in network.state_dict().values():
        plain = tensor.detach().cpu().contiguous()
        sha.update(f"{plain.dtype} {tuple(plain.shape)}".encode())
        sha.update(plain.flatten().view(dtype=torch.uint8).numpy().tobytes())
    return sha.hexdigest()[:16]


def runtime_differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What is recorded on both sides and differs: name -> (then, now).

    >>> runtime_differences({"torch": "2.5", "threads": "1"}, {"torch": "2.6", "threads": "1"})
    {'torch': ('2.5', '2.6')}
    """
    return {name: (str(then[name]), str(now[name])) for name in then if name in now and then[name] != now[name]}


def code_digest(
    roots: Iterable[Symbol], prefixes: tuple[str, ...] = (PACKAGE,), beside: Collection[Symbol] = ()
) -> str:
    """Equal digests: the same code computes what begins at these functions.

    Files are read once a process: what is edited while a computation runs is not what it runs.

    Args:
        roots: where the computation begins.
        prefixes: only definitions of modules whose names begin so.
        beside: definitions that count in another way, such as settings whose values are in the same key.
    """
    texts = reached(roots, prefixes, beside)
    return digest([f"{name}\n{text}" for name, text in sorted(texts.items())])


def symbols_of(function: Callable[..., Any] | None) -> Iterator[Symbol]:
    """Where a function is defined; partial applications are seen through, other callables are their class."""
    while isinstance(function, partial):
        function = function.func
    if function is not None:
        owner = function if hasattr(function, "__qualname__") else type(function)
        yield owner.__module__, owner.__qualname__.partition(".")[0]


def symbol_at(location: str) -> Symbol:
    """Of "package.module:function"."""
    module, _, name = location.partition(":")
    return module, name


def reached(
    roots: Iterable[Symbol], prefixes: tuple[str, ...] = (PACKAGE,), beside: Collection[Symbol] = ()
) -> dict[str, str]:
    """The text of every definition that the roots use, directly or through others: "module:name" -> text.

    Args:
        prefixes: only definitions of modules whose names begin so.
        beside: definitions that are neither counted nor followed.
    """
    found: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        module, name = waiting.pop()
        key = f"{module}:{name}"
        parsed = _parse(module) if module.startswith(prefixes) else None
        if parsed is None or key in found or (module, name) in beside:
            continue
        if name in parsed.imported and name not in parsed.statements:
            waiting.append(parsed.imported[name])
            continue
        statements = parsed.statements.get(name, ())
        if statements:
            found[key] = "\n".join(normalized(statement) for statement in statements)
        for statement in statements:
            waiting += _used(statement, module, {**parsed.imported, **_imports(statement)})
    return found


def normalized(tree: ast.AST) -> str:
    """The syntax tree as text, without docstrings, comments and layout."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    """A docstring, also of an attribute."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def forget_files() -> None:
    """Read the package's files anew."""
    _parse.cache_clear()


@dataclass(frozen=True)
class _Module:
    """The top-level statements by the name they define, and what imported names stand for."""

    statements: Mapping[str, tuple[ast.stmt, ...]]
    imported: Mapping[str, Symbol]


def _used(statement: ast.stmt, module: str, imported: Mapping[str, Symbol]) -> Iterator[Symbol]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            origin, name = imported[node.value.id]
            yield f"{origin}.{name}", node.attr
        if isinstance(node, ast.Name):
            yield imported.get(node.id, (module, node.id))


@cache
def _parse(module: str) -> _Module | None:
    place = _ROOT.joinpath(*module.split(".")[1:]) if module.split(".")[0] == PACKAGE else None
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
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
                names |= {alias.asname or alias.name: (str(node.module), alias.name) for alias in node.names}
    return names
