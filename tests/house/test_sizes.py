"""Files and signatures stay small enough to be read at once."""

import ast
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("dynamask_mlflow", "dags", "benchmarks", "tests")
SOURCES = sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))
MOST_LINES = 400
MOST_PARAMETERS = 7

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
    "orchestration/group.py:audit_task_group": "settings of a task group by keyword",
}


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function is a command line: its parameters are its flags."""
    return any("command(" in ast.unparse(decorator) for decorator in node.decorator_list)


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    own = sum(a.arg in ("self", "cls") for a in named[:1])
    return len(named) - own + (node.args.vararg is not None) + (node.args.kwarg is not None)


def long_signatures() -> dict[str, int]:
    found = {}
    for path in (REPOSITORY / "dynamask_mlflow").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_command(node):
                name = f"{path.relative_to(REPOSITORY / 'dynamask_mlflow')}:{node.name}"
                if parameters(node) > MOST_PARAMETERS and name not in EXEMPT:
                    found[name] = parameters(node)
    return found


def test_a_file_is_short() -> None:
    lines = {str(path.relative_to(REPOSITORY)): len(path.read_text().splitlines()) for path in SOURCES}
    long = {path: n for path, n in lines.items() if n > MOST_LINES}
    assert not long, f"Expected at most {MOST_LINES} lines, but got {long}: split by concern"


def test_a_function_takes_few_parameters() -> None:
    more = long_signatures()
    assert not more, f"Expected at most {MOST_PARAMETERS} parameters, but got {more}: group them in a dataclass"
