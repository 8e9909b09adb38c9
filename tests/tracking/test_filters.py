"""Names with quotes and other hostile text, in MLflow's searches."""

from __future__ import annotations

from pathlib import Path

import mlflow
import pytest

from dynamask_mlflow.audit.history import audit_history
from dynamask_mlflow.audit.models import ModelRef, resolve_model
from dynamask_mlflow.audit.reference import previous_reference
from dynamask_mlflow.audit.runs import find_or_create_run
from dynamask_mlflow.audit.tags import MODEL, VERDICT
from dynamask_mlflow.tracking.mlflow_client import tag_equals

NAMES = [
    "it's", 'say "hi"', "both ' and \"", "a\\b", "ends with \\", "back`tick", "semi; drop table runs", "100%", "a_b",
    "-- comment", "/* c */", "two\nlines", "' or 1=1 --", "a and b = 'c'", "é漢字🩺", "'", '"', "''", "AND", "${x}",
    "{}", " space ", "\\'", "''\"\"", "tab\tx", "x" * 250, "%", "_", "\\", "it''s", "(select 1)", "null",
    "\u202eabc",
]  # fmt: skip


def test_every_name_finds_its_own_run_and_no_other(store: Path) -> None:
    client = mlflow.MlflowClient()
    home = client.get_experiment_by_name("test").experiment_id
    for name in NAMES:
        client.create_run(home, tags={"who": name})
    for name in NAMES:
        found = [run.data.tags["who"] for run in client.search_runs([home], tag_equals("who", name))]
        assert [other for other in found if other == name] == [name]
        if not set(name) & set("'\"\\"):
            assert found == [name]


def test_audits_of_a_model_with_any_name_are_found_again(store: Path) -> None:
    for name in NAMES:
        first = find_or_create_run("audits", name, "audit", {"dynamask.kind": "audit", MODEL: name, VERDICT: "ok"})
        assert find_or_create_run("audits", name, "audit", {"dynamask.kind": "audit", MODEL: name}) == first
    for name in NAMES:
        assert len(audit_history("audits", name)) == 1


@pytest.mark.parametrize("name", ["it's", 'say "hi"', "both ' and \"", "semi; drop", "a\\b"])
def test_versions_of_a_model_with_quotes_in_its_name_are_resolved(store: Path, name: str) -> None:
    client = mlflow.MlflowClient()
    client.create_registered_model(name)
    for _ in range(2):
        client.create_model_version(name, str(store))
    client.set_model_version_tag(name, "1", "dynamask.reference_run_id", "abc")
    assert resolve_model(f"models:/{name}").version == "2"
    assert previous_reference(ModelRef(name, "2", "")) == "abc"
