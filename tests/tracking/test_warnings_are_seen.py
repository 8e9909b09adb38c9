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


SAY = "from dynamask_mlflow._logs import say; say('no gradients here')"


@pytest.mark.parametrize(
    "before",
    [
        [],
        [PACKAGE, "import logging.config; logging.config.dictConfig({'version': 1})"],
        ["import logging; logging.disable(logging.CRITICAL)"],
        ["import logging; logging.getLogger().setLevel('CRITICAL')"],
        [PACKAGE, "import logging; logging.getLogger('dynamask_mlflow').handlers = [logging.NullHandler()]"],
        ["import logging; logging.basicConfig(level='ERROR')"],
    ],
    ids=str,
)
def test_a_refusal_is_seen_once_whatever_the_configuration(before: list[str]) -> None:
    assert said(*before, SAY).count("no gradients here") == 1


def test_a_refusal_is_not_seen_where_the_user_wants_errors_alone() -> None:
    assert "no gradients" not in said(PACKAGE, "import logging; logging.getLogger('dynamask_mlflow').setLevel(40)", SAY)
