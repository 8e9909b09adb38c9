"""An evaluation that is not about sequences must not notice that this package is installed."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

from dynamask_mlflow.tracking import evaluator
from dynamask_mlflow.tracking.evaluator import DynamaskEvaluator

_TABULAR = """
import importlib.metadata, json, sys
if sys.argv[1] == "without":
    every = importlib.metadata.entry_points
    def others(**chosen):
        found = every(**chosen)
        return [e for e in found if not e.value.startswith("dynamask_mlflow")]
    importlib.metadata.entry_points = others
import mlflow, pandas, numpy
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
folder = sys.argv[2]
mlflow.set_tracking_uri("sqlite:///" + folder + "/mlflow.db")
x, y = load_iris(return_X_y=True, as_frame=True)
with mlflow.start_run() as run:
    info = mlflow.sklearn.log_model(
        LogisticRegression(max_iter=500).fit(x, y), name="m", pip_requirements=[], skops_trusted_types=None
    )
    result = mlflow.models.evaluate(info.model_uri, x.assign(y=y), targets="y", model_type="classifier")
path = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=folder + "/got")
stored = mlflow.get_run(run.info.run_id)
tags = sorted(key for key in stored.data.tags)
evaluators = sorted(mlflow.models.list_evaluators())
plugin = "from_sequences" in dir(mlflow.data)
print(json.dumps([result.metrics, stored.data.metrics, sorted(result.artifacts), tags, plugin, evaluators]))
"""


def start_tabular(which: str, folder: Path, empty_store: Path) -> subprocess.Popen[str]:
    folder.mkdir()
    (folder / "mlflow.db").write_bytes(empty_store.read_bytes())
    command = [sys.executable, "-c", _TABULAR, which, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


def finish(process: subprocess.Popen[str], folder: Path) -> tuple[list[Any], dict[str, bytes]]:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    got = folder / "got"
    files = {str(path.relative_to(got)): path.read_bytes() for path in got.rglob("*") if path.is_file()}
    return json.loads(output.splitlines()[-1]), files


@pytest.mark.slow
def test_a_tabular_evaluation_is_byte_for_byte_what_it_is_without_us(tmp_path: Path, empty_store: Path) -> None:
    pytest.importorskip("sklearn")
    started = {which: start_tabular(which, tmp_path / which, empty_store) for which in ("with", "without")}
    done = {which: finish(process, tmp_path / which) for which, process in started.items()}
    (*with_plugin, installed, names), files = done["with"]
    (*without, absent, others), other_files = done["without"]
    assert installed
    assert "dynamask" in names
    assert not absent
    assert "dynamask" not in others
    assert with_plugin == without
    assert len(files) >= 3
    assert files == other_files


def test_import_mlflow_pulls_in_nothing_heavy() -> None:
    listed = "m for m in sys.modules if m.split('.')[0] in ('torch', 'dynamask_mlflow')"
    script = f"import sys, mlflow; print(*({listed}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {
        "dynamask_mlflow",
        "dynamask_mlflow._lazy",
        "dynamask_mlflow._logs",
        "dynamask_mlflow._version",
        "dynamask_mlflow.tracking",
        "dynamask_mlflow.tracking.dataset",
    }


def test_importing_the_evaluator_does_not_import_torch() -> None:
    script = "import sys, dynamask_mlflow.tracking.evaluator; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("model_type", "config", "expected"),
    [
        ("sequence-classifier", {}, True),
        ("sequence-regressor", None, True),
        ("classifier", {}, True),
        ("classifier", {"label_list": [0, 1]}, True),
        ("classifier", {"enabled": False}, False),
        ("sequence-classifier", {"enabled": False}, False),
        ("text", {}, False),
        ("question-answering", {"seed": 1}, False),
        (None, {}, False),
        (None, {"instances": 3}, True),
    ],
)
def test_who_is_taken(model_type: str | None, config: dict[str, object] | None, expected: bool) -> None:
    assert DynamaskEvaluator.can_evaluate(model_type=model_type, evaluator_config=config) is expected


def test_a_table_is_left_alone_with_one_warning_in_all(
    store: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator, "_said", set())
    table = pd.DataFrame({"a": np.arange(10.0), "y": [0, 1] * 5})
    with caplog.at_level(logging.WARNING, logger="dynamask_mlflow"):
        for _ in range(2):
            result = mlflow.models.evaluate(
                lambda df: np.array([0, 1] * (len(df) // 2) + [0] * (len(df) % 2)),
                table,
                targets="y",
                model_type="classifier",
            )
    assert result.metrics["accuracy_score"] == 1.0
    assert len([r for r in caplog.records if r.name.startswith("dynamask_mlflow")]) == 1
