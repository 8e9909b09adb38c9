"""The report: arrays in, one self-contained page or PNG bytes out."""

from dynamask_mlflow.report.card import model_card
from dynamask_mlflow.report.data import (
    AuditPoint,
    Compared,
    Contributions,
    Course,
    Curves,
    DriftData,
    MethodResult,
    Paired,
    ReportData,
    TargetView,
)
from dynamask_mlflow.report.picture import heat_map_png
from dynamask_mlflow.report.render import render_report

__all__ = [
    "AuditPoint",
    "Compared",
    "Contributions",
    "Course",
    "Curves",
    "DriftData",
    "MethodResult",
    "Paired",
    "ReportData",
    "TargetView",
    "heat_map_png",
    "model_card",
    "render_report",
]
