"""Arrows between rooms point one way, and the front door is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dynamask_mlflow

PACKAGE = Path(dynamask_mlflow.__file__).parent

# What each room may import from the package, beside itself.
ALLOWED = {
    "masks": set(),
    "metrics": set(),
    "report": set(),
    "saliency": {"masks"},
    "data": set(),
    "evaluation": {"masks", "metrics", "report"},
    "tracking": {"masks", "metrics", "report", "evaluation"},
    "training": {"masks", "data", "metrics", "evaluation", "tracking"},
    "audit": {"masks", "metrics", "report", "data", "evaluation", "tracking"},
    "orchestration": {"audit", "data"},
    "experiments": {"masks", "metrics", "saliency", "data", "training", "evaluation", "tracking", "audit", "report"},
    "cli": {
        "masks",
        "metrics",
        "saliency",
        "data",
        "training",
        "evaluation",
        "tracking",
        "audit",
        "report",
        "experiments",
    },
}
# Libraries that a room must never touch.
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


def rooms() -> list[str]:
    return sorted(p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists())


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("room", rooms())
def test_a_room_imports_only_what_it_may(room: str) -> None:
    assert room in ALLOWED, f"say in ALLOWED what {room} may import"
    for path in (PACKAGE / room).rglob("*.py"):
        for name in imports(path):
            top, _, rest = name.partition(".")
            if top == "dynamask_mlflow" and rest:
                other = rest.split(".")[0]
                if other in ALLOWED and other != room:
                    # pandas is a result's own format in masks.result, and mlflow an import of its callers.
                    assert other in ALLOWED[room], f"{path.relative_to(PACKAGE)} imports {name}"
            elif top in FORBIDDEN.get(room, set()):
                allowed_here = room == "masks" and path.name == "result.py" and top == "pandas"
                assert allowed_here, f"{path.relative_to(PACKAGE)} imports {name}"


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
