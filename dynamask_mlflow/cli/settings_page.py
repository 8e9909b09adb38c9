"""Writes docs/settings.md: `python -m dynamask_mlflow.cli.settings_page docs/settings.md`."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

from dynamask_mlflow._schema import settings_table
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.masks.config import ExplainConfig

_HEAD = """# Settings

Every setting, with its type and default. The keys are the same for `explain`, in `evaluator_config`, after
`audit --set`, in a settings file and in the `settings` of an audit's trigger form. A wrong type or an unknown key is an
error that says what was expected.
This page is written from the code: `python -m dynamask_mlflow.cli.settings_page docs/settings.md`.
"""


def settings_page() -> str:
    """The page as text."""
    fit = frozenset(field.name for field in fields(ExplainConfig))
    parts = [
        _HEAD,
        "## Of the fit: `ExplainConfig`\n",
        settings_table(ExplainConfig),
        "\n## Of an evaluation, beside those of the fit: `EvaluationConfig`\n",
        settings_table(EvaluationConfig, leave=fit),
        "\n## Of an audit, beside those of the fit: `AuditConfig`\n",
        settings_table(AuditConfig, leave=fit),
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(settings_page(), encoding="utf-8")
