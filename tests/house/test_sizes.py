"""Files and signatures stay small enough to be read at once."""

import ast
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("dynamask_mlflow", "dags", "benchmarks", "tests")
SOURCES = sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))
MOST_LINES = 400
MOST_PARAMETERS = 7
MOST_LINES_OF_A_FUNCTION = 60  # without its signature and its docstring

# Signatures that others fix, or that are read as a list of settings: keyword arguments with defaults, never positional.
EXEMPT = {
    "masks/change/explain_change.py:explain_change": "the times in question by keyword, and how prefixes are made",
    "tracking/flavor.py:save_model": "MLflow's contract of a flavor",
    "tracking/dataset.py:from_sequences": "MLflow's contract of a dataset constructor, and the fields of Sequences",
    "tracking/dataset.py:from_long_frame": "MLflow's contract of a dataset constructor, and the columns of a table",
    "evaluation/sequences.py:as_sequences": "the fields of Sequences",
    "masks/explain.py:explain": "the verb: arrays and settings by keyword",
    "orchestration/dag.py:build_audit_dag": "settings of a DAG by keyword, as Airflow's own DAG takes them",
    "orchestration/reference_dag.py:build_reference_dag": "settings of a DAG by keyword",
    "orchestration/reconcile_dag.py:build_reconcile_dag": "settings of a DAG by keyword",
    "orchestration/group.py:audit_task_group": "settings of a task group by keyword",
}


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a command line: its parameters are its flags."""
    return any("command(" in ast.unparse(decorator) for decorator in node.decorator_list)


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    own = sum(a.arg in ("self", "cls") for a in named[:1])
    return len(named) - own + (node.args.vararg is not None) + (node.args.kwarg is not None)


@cache
def functions() -> tuple[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef], ...]:
    """Every function of the package, by file and name."""
    package = REPOSITORY / "dynamask_mlflow"
    return tuple(
        (f"{path.relative_to(package)}:{node.name}", node)
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def long_signatures() -> dict[str, int]:
    return {name: parameters(node) for name, node in functions() if parameters(node) > MOST_PARAMETERS}


def test_a_file_is_short() -> None:
    lines = {str(path.relative_to(REPOSITORY)): len(path.read_text().splitlines()) for path in SOURCES}
    long = {path: n for path, n in lines.items() if n > MOST_LINES}
    assert not long, f"Expected at most {MOST_LINES} lines, but got {long}: split by concern"


def test_a_function_takes_few_parameters() -> None:
    commands = {name for name, node in functions() if is_command(node)}
    more = {name: number for name, number in long_signatures().items() if name not in commands | EXEMPT.keys()}
    assert not more, f"Expected at most {MOST_PARAMETERS} parameters, but got {more}: group them in a dataclass"


def test_an_exempt_signature_needs_it() -> None:
    spare = sorted(EXEMPT.keys() - long_signatures().keys())
    assert not spare, f"Expected exemptions of long signatures, but these are short: {spare}"


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[ast.get_docstring(node) is not None :]
    return int(node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_a_function_is_short() -> None:
    long = {name: body_lines(node) for name, node in functions() if body_lines(node) > MOST_LINES_OF_A_FUNCTION}
    assert not long, f"Expected at most {MOST_LINES_OF_A_FUNCTION} lines, but got {long}: split by step"
