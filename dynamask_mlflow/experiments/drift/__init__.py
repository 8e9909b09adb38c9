"""How often audits are right: windows drawn from explained stays, with nothing changed and with known changes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dynamask_mlflow.experiments.drift.calendar import calendar_notes
from dynamask_mlflow.experiments.drift.data import SOURCES, open_case
from dynamask_mlflow.experiments.drift.document import update_document
from dynamask_mlflow.experiments.drift.versions import canary_notes, cause_notes, version_notes
from dynamask_mlflow.experiments.drift.windows import Report, Row, window_rows
from dynamask_mlflow.experiments.drift.years import year_notes

__all__ = ["SOURCES", "Row", "Scale", "as_table", "run_drift", "update_document"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of the experiment to run.

    Attributes:
        replicates: windows of a row. years: of monthly audits. quick: a smoke test.
        stays: explained of each data set, from which windows are drawn; None: all there are.
        versions: also new versions, the canary and the calendar, which train a dozen models.
        refitted: also changes of the inputs, for each of which all stays are explained anew.
        choosing: on the stays on which the limits were chosen, instead of those that are reported.
    """

    replicates: int = 200
    years: int = 300
    stays: int | None = None
    versions: bool = True
    refitted: bool = True
    choosing: bool = False
    quick: bool = False


def run_drift(
    sources: tuple[str, ...] = SOURCES, scale: Scale | None = None, report: Report = lambda _: None
) -> tuple[list[Row], list[str]]:
    """All rows of the table, and sentences about years, versions, causes, canary and calendar.

    Done parts come from the cache.
    """
    scale = scale or Scale()
    quick = scale.quick
    torch.set_num_threads(1)
    rows: list[Row] = []
    notes: list[str] = []
    for source in sources:
        case = open_case(source, quick, scale.choosing, scale.stays)
        pool = case.measured("pool", case.pool)
        report(f"{source}: {len(pool)} stays explained")
        rows += window_rows(case, pool, 12 if quick else scale.replicates, report, scale.refitted)
        if scale.years:
            notes += year_notes(case, pool, 6 if quick else scale.years, scale.refitted)
            report(f"{source}: years done")
        if not scale.versions:
            continue
        notes += version_notes(case, pool, report)
        notes += cause_notes(case, pool, 6 if quick else max(20, scale.replicates // 2))
        notes += canary_notes(case, pool)
        if source == "hospital":
            notes += [f"{source}, {note}" for note in calendar_notes(case, pool, report)]
    return rows, notes


def as_table(rows: list[Row]) -> list[list[str]]:
    arms = ["attention alone", "predictions alone", "inputs alone"]
    head = ["data", "change", "stays", "DRIFT", "warning", "OK proven", *arms, "mean risk", "windows", "wanted"]
    body = [
        [
            row.source,
            row.change,
            str(row.instances),
            *(f"{value:.3f}" for value in (row.drift, row.warning, row.ok, row.attention, row.predictions, row.inputs)),
            f"{row.risk:.3f}",
            str(row.replicates),
            row.wanted or "-",
        ]
        for row in rows
    ]
    return [head, *body]
