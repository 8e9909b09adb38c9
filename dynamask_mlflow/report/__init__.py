"""The report: arrays in, one self-contained page or PNG bytes out."""

from dynamask_mlflow.report.data import AuditPoint, Curves, DriftData, MethodResult, ReportData
from dynamask_mlflow.report.picture import heat_map_png
from dynamask_mlflow.report.render import render_report

__all__ = [
    "AuditPoint",
    "Curves",
    "DriftData",
    "MethodResult",
    "ReportData",
    "heat_map_png",
    "render_report",
]
