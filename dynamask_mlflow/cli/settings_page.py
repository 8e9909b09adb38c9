"""Writes docs/settings.md: `python -m dynamask_mlflow.cli.settings_page docs/settings.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from dynamask_mlflow._schema import concerns, settings_table
from dynamask_mlflow._settings import Settings
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.masks.config import ExplainConfig

_HEAD = """# Settings

Every setting, with its type and default. The keys are the same for `explain`, in `evaluator_config`, as flags of
the commands (`--area 0.1`, `--hash-ids`), after `--set`, in a settings file and in the `settings` of an audit's trigger
form. A wrong type or an unknown key is an error that says what was expected.
This page is written from the code: `python -m dynamask_mlflow.cli.settings_page docs/settings.md`.
"""


def settings_page() -> str:
    """The page as text."""
    fit = frozenset(ExplainConfig.model_fields)
    parts = [_HEAD, "## Of the fit: `ExplainConfig`\n", *_tables(ExplainConfig, frozenset())]
    parts += ["## Of an evaluation, beside those of the fit: `EvaluationConfig`\n", *_tables(EvaluationConfig, fit)]
    parts += ["## Of an audit, beside those of the fit: `AuditConfig`\n", *_tables(AuditConfig, fit)]
    return "\n".join(parts)


def _tables(cls: type[Settings], leave: frozenset[str]) -> list[str]:
    """One table a concern."""
    named = ((title, [name for name in names if name not in leave]) for title, names in concerns(cls))
    return [f"### {title}\n\n{settings_table(cls, names)}\n" for title, names in named if names]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(settings_page(), encoding="utf-8")
