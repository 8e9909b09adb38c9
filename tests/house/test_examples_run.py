"""Every public function shows an example that runs."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dynamask_mlflow

# The examples of these, in a world: a registered model and its reference, a dataset.
IN_A_WORLD = ("dynamask_mlflow.audit.", "dynamask_mlflow.orchestration.", "dynamask_mlflow.training.train_and_register")
IN_A_WORLD += ("dynamask_mlflow.data.build", "dynamask_mlflow.data.open_source")
IN_A_WORLD += ("dynamask_mlflow.load_model", "dynamask_mlflow.log_model")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the docs take for granted, and a reference of the champion; made once."""
    import mlflow

    from dynamask_mlflow.audit import AuditConfig, build_reference

    folder, before = tmp_path_factory.mktemp("world"), mlflow.get_tracking_uri()
    spec = importlib.util.spec_from_file_location("docs_world", Path(__file__).parents[1] / "docs" / "world.py")
    assert spec is not None
    assert spec.loader is not None
    docs_world = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs_world)
    docs_world.make(folder)
    config = AuditConfig(reference_instances=100, anchors=5)
    where = {"config": config, "store": str(folder / "store")}
    build_reference("models:/icu-mortality@champion", str(folder / "icu"), "2025-06", **where)
    yield folder
    mlflow.set_tracking_uri(before)
    mlflow.set_registry_uri(before)
    mlflow.tracking.fluent._active_experiment_id = None


def public_functions() -> Iterator[tuple[str, Any]]:
    names = [each.name for each in pkgutil.iter_modules([str(Path(dynamask_mlflow.__file__).parent)]) if each.ispkg]
    for module in (dynamask_mlflow, *(importlib.import_module(f"dynamask_mlflow.{each}") for each in names)):
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
        "training.config",
    ),
    "cli.setting_flags",
)


def run_example(name: str) -> None:
    function = FUNCTIONS[name]
    tests = doctest.DocTestFinder(recurse=False).find(function, name.rpartition(".")[2], globs={})
    examples = [test for test in tests if test.examples]
    assert examples, f"Expected an example (>>>) in the docstring of {name}, but there is none"
    module = importlib.import_module(function.__module__)
    for test in examples:
        test.globs = dict(vars(module))
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test)
        assert not result.failed


@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS if not name.startswith(IN_A_WORLD)))
def test_the_example_of_a_public_function_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_example(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS if name.startswith(IN_A_WORLD)))
def test_the_example_of_a_public_function_runs_in_a_world(
    name: str, world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world)
    monkeypatch.setenv("DYNAMASK_STORE", str(world / "store"))
    run_example(name)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"dynamask_mlflow.{name}"))
    assert result.attempted
    assert not result.failed
