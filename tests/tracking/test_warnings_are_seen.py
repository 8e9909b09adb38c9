"""Warnings of the package reach the user whatever was imported, and only once."""

from __future__ import annotations

import subprocess
import sys

import pytest

WARN = "import logging; logging.getLogger('dynamask_mlflow.tracking.x').warning('no gradients here')"
PACKAGE = "import dynamask_mlflow"


def said(*lines: str) -> str:
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return done.stderr + done.stdout


@pytest.mark.parametrize(
    "before",
    [
        [PACKAGE],
        [PACKAGE, "import mlflow"],
        ["import mlflow.pytorch", PACKAGE],
        [PACKAGE, "import mlflow.pytorch"],
        ["import logging; logging.basicConfig(level='INFO')", PACKAGE],
        [PACKAGE, "import logging; logging.basicConfig(level='DEBUG')"],
        [PACKAGE, "import logging; logging.getLogger().addHandler(logging.NullHandler())"],
        ["import logging; logging.getLogger('dynamask_mlflow').addHandler(logging.StreamHandler())", PACKAGE],
    ],
    ids=str,
)
def test_a_warning_is_printed_once(before: list[str]) -> None:
    assert said(*before, WARN).count("no gradients here") == 1


def test_what_the_user_set_holds() -> None:
    quiet = "import logging; logging.getLogger('dynamask_mlflow').setLevel('ERROR')"
    assert "no gradients" not in said(quiet, PACKAGE, "import mlflow.pytorch", WARN)
    assert "no gradients" not in said(PACKAGE, "import mlflow.pytorch", quiet, WARN)


def test_handlers_of_the_root_logger_get_the_records_as_task_logs_of_airflow_need_them() -> None:
    collect = (
        "import logging, sys\nclass Task(logging.Handler):\n    def emit(self, r): print('task log:', r.getMessage())\n"
        "logging.getLogger().addHandler(Task())"
    )
    out = said(PACKAGE, collect, WARN, "logging.getLogger('dynamask_mlflow').info('three shards')")
    assert out.splitlines() == ["task log: no gradients here", "task log: three shards"]
