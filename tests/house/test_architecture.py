"""Dependencies between subpackages point one way, and importing the package is cheap."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import dynamask_mlflow

PACKAGE = Path(dynamask_mlflow.__file__).parent

# What each subpackage imports from the package, beside itself: no more and no less.
DEPENDENCIES = {
    "masks": set(),
    "metrics": set(),
    "report": set(),
    "saliency": {"masks"},
    "data": set(),
    "evaluation": {"masks", "metrics", "report"},
    "tracking": {"masks", "metrics", "evaluation"},
    "training": {"data", "metrics", "tracking"},
    "audit": {"masks", "report", "data", "evaluation", "tracking"},
    "orchestration": {"audit", "data"},
    "experiments": {"masks", "metrics", "saliency", "data", "training", "evaluation", "tracking", "audit"},
    "cli": {
        "masks",
        "metrics",
        "data",
        "training",
        "evaluation",
        "tracking",
        "audit",
        "orchestration",
        "experiments",
        "report",
    },
}
# Libraries that a subpackage must never touch.
FORBIDDEN = {
    "masks": {"mlflow", "airflow", "pandas", "sklearn"},
    "metrics": {"mlflow", "airflow", "torch"},
    "report": {"mlflow", "airflow", "torch"},
    "saliency": {"mlflow", "airflow"},
    "data": {"mlflow", "airflow", "torch"},
    "evaluation": {"mlflow", "airflow"},
    "tracking": {"airflow"},
    "training": {"airflow"},
    "audit": {"airflow"},
}
# Subpackages of a subpackage that compute behind one interface, their `__init__`: what of the outer one they use.
INNER = {
    "audit/statistics": set(),
    "audit/comparison": {"artifacts", "config", "explained_window", "statistics"},
    "audit/verdict": {"comparison", "config", "culprit", "identity", "items", "statistics"},
}
# Beside the subpackages, these files may name them, as text or for type checkers: the `__init__`, the table of methods.
MAY_NAME_THEM = {"__init__.py", "_method_table.py"}
# pandas is the format of a result that is asked for.
EXCEPTIONS = {(f"masks/{file}.py", "pandas") for file in ("result", "change/result", "instance_result")}

A_PLACE = re.compile(r"dynamask_mlflow(\.\w+)+(:\w+)?")


def subpackages() -> list[str]:
    return sorted(p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists())


@cache
def mentioned(source: str) -> set[str]:
    """The modules that a source imports, or names as text: `from a import b` gives both `a` and `a.b`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "Expected absolute imports, which the walk can follow"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and A_PLACE.match(node.value):
            found.add(node.value.partition(":")[0])
    return found


def dependencies(name: str, source: str) -> set[str]:
    """The other subpackages that a source of the one named mentions."""
    parts = [name.split(".") for name in mentioned(source)]
    return {p[1] for p in parts if p[0] == "dynamask_mlflow" and len(p) > 1 and p[1] in DEPENDENCIES} - {name}


@pytest.mark.parametrize("name", subpackages())
def test_a_subpackage_imports_what_its_dependencies_say(name: str) -> None:
    used: dict[str, str] = {}
    for path in (PACKAGE / name).rglob("*.py"):
        for other in dependencies(name, path.read_text()):
            used[other] = str(path.relative_to(PACKAGE))
    extra = {other: where for other, where in used.items() if other not in DEPENDENCIES[name]}
    assert not extra, f"{name} may not use {extra}"
    assert set(used) == DEPENDENCIES[name], (
        f"{name} no longer uses {DEPENDENCIES[name] - set(used)}: take the dependency out"
    )


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
def test_a_subpackage_leaves_other_libraries_alone(name: str) -> None:
    for path in (PACKAGE / name).rglob("*.py"):
        tops = {name.split(".")[0] for name in mentioned(path.read_text())}
        here = str(path.relative_to(PACKAGE))
        assert not {t for t in tops & FORBIDDEN[name] if (here, t) not in EXCEPTIONS}, here


@pytest.mark.parametrize("inner", sorted(INNER))
def test_an_inner_subpackage_is_imported_by_its_interface(inner: str) -> None:
    behind = {f"dynamask_mlflow.{inner.replace('/', '.')}.{path.stem}" for path in (PACKAGE / inner).glob("*.py")}
    for path in PACKAGE.rglob("*.py"):
        if not path.is_relative_to(PACKAGE / inner):
            used = mentioned(path.read_text()) & behind
            assert not used, f"{path.relative_to(PACKAGE)} goes past the interface to {sorted(used)}"


@pytest.mark.parametrize("inner", sorted(INNER))
def test_an_inner_subpackage_uses_what_its_dependencies_say(inner: str) -> None:
    outer, _, name = inner.partition("/")
    used: set[str] = set()
    for path in (PACKAGE / inner).glob("*.py"):
        found = mentioned(path.read_text())
        assert not {each.split(".")[0] for each in found} & {"mlflow", "torch"}, path.name
        used |= {each.split(".")[2] for each in found if each.startswith(f"dynamask_mlflow.{outer}.")}
    assert used - {name} == INNER[inner]


def test_what_lies_beside_the_subpackages_imports_none_of_them() -> None:
    for path in PACKAGE.glob("*.py"):
        if path.name not in MAY_NAME_THEM:
            assert not dependencies("", path.read_text()), path.name


@pytest.mark.parametrize(
    "source",
    [
        "import dynamask_mlflow.tracking.flavor",
        "from dynamask_mlflow import tracking",
        "from dynamask_mlflow.tracking import flavor",
        "METHODS = {'ig': 'dynamask_mlflow.tracking.loading:load_model'}",
        "METHODS = {name: f'dynamask_mlflow.tracking.flavor:{name}' for name in ()}",
        "def late():\n    from dynamask_mlflow.tracking.loading import load_model",
    ],
)
def test_every_way_to_name_a_subpackage_is_seen(source: str) -> None:
    assert dependencies("masks", source) == {"tracking"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, dynamask_mlflow; print(sorted({'torch', 'mlflow', 'pandas', 'numpy'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_public_names_resolve() -> None:
    for name in dynamask_mlflow.__all__:
        assert getattr(dynamask_mlflow, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'explode'"):
        dynamask_mlflow.explode  # noqa: B018


def test_every_command_has_help() -> None:
    from click.testing import CliRunner

    from dynamask_mlflow.cli import _COMMANDS, main

    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for command in _COMMANDS:
        assert command in result.output
        assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0, command
