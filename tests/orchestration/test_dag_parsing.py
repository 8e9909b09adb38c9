"""DAG files parse without torch and MLflow, and hold what they promise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("airflow.sdk")
DAGS = Path(__file__).parents[2] / "dags"
HEAVY = {"torch", "mlflow", "numpy", "pandas"}
PARSE = """
import json, runpy, sys
import airflow.sdk
from airflow.sdk import DAG, task
for path in sys.argv[1:]:
    runpy.run_path(path)
print(json.dumps(sorted(m.partition(".")[0] for m in sys.modules)))
"""


def test_dag_files_parse_without_torch_and_mlflow() -> None:
    files = sorted(map(str, DAGS.glob("*.py")))
    assert len(files) == 5
    done = subprocess.run([sys.executable, "-c", PARSE, *files], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert not HEAVY & set(found)


def test_the_provider_is_known_to_airflow_and_its_classes_are_light() -> None:
    code = """
import sys
from dynamask_mlflow.orchestration.provider import get_provider_info
from airflow.providers_manager import ProvidersManager
manager = ProvidersManager()
assert "dynamask-mlflow" in manager.providers, sorted(manager.providers)
assert manager.hooks["mlflow"].hook_class_name.endswith("MlflowHook")
assert any("MlflowRunLink" in name for name in manager.extra_links_class_names)
assert any("MlflowTagNotifier" in name for name in manager.notification)
print(sorted({"torch", "mlflow"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.fixture(scope="module")
def bag(airflow_db):
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(DAGS, bundle_path=DAGS, bundle_name="dags-folder")


def test_every_dag_loads_without_errors_and_explains_itself(bag) -> None:
    assert bag.import_errors == {}
    audits = {"explanation_audit", "explanation_reconcile", "explanation_reference"}
    assert set(bag.dags) == {*audits, "dataset_build", "paper_experiments"}
    for dag in bag.dags.values():
        assert dag.doc_md
        for param in map(dag.params.get_param, dag.params):
            assert param.schema["section"]
            assert param.description


def test_the_shape_of_an_audit(bag) -> None:
    dag = bag.dags["explanation_audit"]
    assert set(dag.task_ids) == {"prepare", "plan", "fit_shard", "report", "alert", "tell_failure", "close_run"}
    assert dag.get_task("prepare").is_setup
    assert dag.get_task("close_run").is_teardown
    assert dag.get_task("fit_shard").is_mapped
    assert dag.get_task("fit_shard").upstream_task_ids == {"plan"}
    assert "fit_shard" in dag.get_task("report").upstream_task_ids
    assert [asset.name for asset in dag.get_task("report").outlets] == ["explanation_audit/icu-mortality"]
    assert [link.name for link in dag.get_task("report").operator_extra_links] == ["MLflow run"]
    assert dag.max_active_runs == 1
    assert all(task.execution_timeout for task in dag.tasks)


def test_a_form_is_stored_once_and_not_with_each_task(bag) -> None:
    for dag in bag.dags.values():
        if dag.dag_id.startswith("explanation_"):
            assert all(not task.params for task in dag.tasks)
            assert all(not getattr(task, "multiple_outputs", False) for task in dag.tasks)
    assert "window" in bag.dags["explanation_audit"].params


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("model", "models:/another@champion"),
        ("window", "last week"),
        ("alpha", 5),
        ("instances", 0),
        ("settings", {"stepz": 3}),
        ("settings", {"deletion": "False"}),
        ("data", ""),
    ],
)
def test_bad_params_are_refused_before_anything_runs(bag, key, bad) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    param = bag.dags["explanation_audit"].params.get_param(key)
    param.resolve()
    with pytest.raises(ParamValidationError):
        param.resolve(bad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": {"stepz": 5}}, "Did you mean 'steps'"),
        ({"fail_on": ["red"]}, "Expected fail_on"),
        ({"empty": "ignore"}, "Expected empty"),
        ({"model": "icu"}, "Expected a registered model"),
        ({"period": "decade"}, "Expected period"),
    ],
)
def test_a_wrong_factory_call_is_an_import_error_that_says_why(options, message) -> None:
    from dynamask_mlflow.orchestration import build_audit_dag

    with pytest.raises(ValueError, match=message):
        build_audit_dag(**{"model": "models:/icu@champion", "data": "icu", **options})
