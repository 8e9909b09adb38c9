"""Every public function shows an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynamask_mlflow

# Functions that need a registered model, a tracking server or Airflow: the guides show them, and the suite of their
# room runs them. Nothing is added here.
ELSEWHERE = {
    "dynamask_mlflow.audit.add_labels",
    "dynamask_mlflow.audit.audit_history",
    "dynamask_mlflow.audit.build_reference",
    "dynamask_mlflow.audit.close_run",
    "dynamask_mlflow.audit.compare_audits",
    "dynamask_mlflow.audit.finish_reference",
    "dynamask_mlflow.audit.fit_shard",
    "dynamask_mlflow.audit.gather",
    "dynamask_mlflow.audit.list_references",
    "dynamask_mlflow.audit.load_reference",
    "dynamask_mlflow.audit.pending_windows",
    "dynamask_mlflow.audit.plan_audit",
    "dynamask_mlflow.audit.plan_reference",
    "dynamask_mlflow.audit.plan_shards",
    "dynamask_mlflow.audit.prepare_audit",
    "dynamask_mlflow.audit.prepare_reference",
    "dynamask_mlflow.audit.prune_references",
    "dynamask_mlflow.audit.publish_version_state",
    "dynamask_mlflow.audit.reconcile",
    "dynamask_mlflow.audit.report_audit",
    "dynamask_mlflow.audit.run_audit",
    "dynamask_mlflow.audit.run_gate",
    "dynamask_mlflow.audit.write_evidence",
    "dynamask_mlflow.data.build",
    "dynamask_mlflow.data.open_source",
    "dynamask_mlflow.load_model",
    "dynamask_mlflow.log_model",
    "dynamask_mlflow.orchestration.audit_task_group",
    "dynamask_mlflow.orchestration.build_audit_dag",
    "dynamask_mlflow.orchestration.build_reference_dag",
    "dynamask_mlflow.orchestration.gate_task",
    "dynamask_mlflow.training.train_and_register",
}


def public_functions() -> Iterator[tuple[str, Any]]:
    rooms = [room.name for room in pkgutil.iter_modules([str(Path(dynamask_mlflow.__file__).parent)]) if room.ispkg]
    for module in (dynamask_mlflow, *(importlib.import_module(f"dynamask_mlflow.{room}") for room in rooms)):
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isfunction(value) and not name.startswith("_"):
                yield f"{module.__name__}.{name}", value


FUNCTIONS = dict(public_functions())
# Modules whose examples run beside those of the public functions.
MODULES = (
    *("_json", "_model_uri", "_provenance", "_ranking", "_schema", "evaluation.explain_and_score", "masks.attribute"),
    *(
        "masks.config",
        "evaluation.config",
        "evaluation.model_settings",
        "audit.config",
        "audit.gate",
        "training.config",
    ),
    "cli.setting_flags",
)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_example_of_a_public_function_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    function = FUNCTIONS[name]
    tests = doctest.DocTestFinder(recurse=False).find(function, name.rpartition(".")[2], globs={})
    examples = [test for test in tests if test.examples]
    if name in ELSEWHERE:
        assert not examples, f"{name} has an example now: take it out of ELSEWHERE"
        return
    assert examples, f"Expected an example (>>>) in the docstring of {name}, but there is none"
    module = importlib.import_module(function.__module__)
    for test in examples:
        test.globs = dict(vars(module))
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test)
        assert not result.failed


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"dynamask_mlflow.{name}"))
    assert result.attempted
    assert not result.failed
