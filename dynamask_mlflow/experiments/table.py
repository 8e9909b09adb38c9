"""The table of an experiment as the paper lays it out: a row a method, mean ± standard deviation in the
columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from dynamask_mlflow.experiments.protocol import Experiment, ExperimentResult, Summary
from dynamask_mlflow.experiments.published import PUBLISHED


def format_summary(summary: Summary) -> str:
    """ "0.99 ± 0.01"; more digits for a small number, fewer for a large one; a lone seed has no deviation."""
    if math.isnan(summary.mean):
        return "-"
    digits = 3 if abs(summary.mean) < 10 else 1 if abs(summary.mean) < 100 else 0
    text = f"{summary.mean:.{digits}f}"
    return text if math.isnan(summary.deviation) else f"{text} ± {summary.deviation:.{digits}f}"


def rows(experiment: Experiment, result: ExperimentResult) -> list[list[str]]:
    """Heading first; then our methods; then what was published, for comparison."""
    columns = {**experiment.columns, "seconds_per_instance": "s/instance"}
    table = [["", *columns.values()]]
    for method in result.methods:
        table.append([method, *(format_summary(result.summary(method, metric)) for metric in columns)])
    for row in PUBLISHED.get(experiment.name, ()):
        table.append([row.name, *(row.values.get(metric, "-") for metric in columns)])
    return table


def as_text(table: Sequence[Sequence[str]]) -> str:
    """Columns aligned for a terminal."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_markdown(table: Sequence[Sequence[str]]) -> str:
    head, *body = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([head, "|" + " --- |" * len(table[0]), *body])


def as_json(experiment: Experiment, result: ExperimentResult) -> str:
    """Every trial and the summary of every column, for programs."""
    columns = [*experiment.columns, "seconds_per_instance"]
    summary: Mapping[str, object] = {
        method: {metric: asdict(result.summary(method, metric)) for metric in columns} for method in result.methods
    }
    document = {
        "experiment": result.experiment,
        "settings": dict(result.settings),
        "summary": summary,
        "trials": [{"seed": t.seed, "method": t.method, "metrics": dict(t.metrics)} for t in result.trials],
    }
    return json.dumps(_without_nan(document), indent=2, ensure_ascii=False)


def _without_nan(value: object) -> object:
    """JSON has no NaN: null."""
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
