"""From the result of a comparison to a verdict: records in, records and sentences out. Pure functions."""

from dynamask_mlflow._states import State
from dynamask_mlflow.audit.verdict.evaluate import evaluate_verdict
from dynamask_mlflow.audit.verdict.input_faults import FAR
from dynamask_mlflow.audit.verdict.messages import (
    PERFORMANCE_NAMES,
    call,
    chance,
    change,
    joined,
    noun,
    number,
    percent,
    points,
)
from dynamask_mlflow.audit.verdict.subgroups import group_rows, subgroup_violations
from dynamask_mlflow.audit.verdict.verdict import Verdict, Violation
from dynamask_mlflow.audit.verdict.violations import detect_violations, detect_warnings, version_alarms

__all__ = [
    "FAR",
    "PERFORMANCE_NAMES",
    "State",
    "Verdict",
    "Violation",
    "call",
    "chance",
    "change",
    "detect_violations",
    "detect_warnings",
    "evaluate_verdict",
    "group_rows",
    "joined",
    "noun",
    "number",
    "percent",
    "points",
    "subgroup_violations",
    "version_alarms",
]
