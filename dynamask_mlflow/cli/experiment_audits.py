"""`dynamask-mlflow experiment subgroups | places | outcomes | years`: how often audits are right, part by part."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
_UPDATE = click.option(
    "--update", type=click.Path(exists=True), help="Write the rows into this Markdown file; other data sets' rows stay."
)


@click.command()
@click.option("--stays", type=click.IntRange(min=100), default=400, show_default=True, help="Explained stays.")
@click.option("--windows", type=click.IntRange(min=5), default=60, show_default=True, help="Windows a row.")
@_JSON
def subgroups(stays: int, windows: int, as_json: bool) -> None:
    """Subgroups with nothing different, and with one group that differs, at 150 stays a group."""
    from dynamask_mlflow.experiments.drift.groups import as_table, run_groups

    _print(run_groups(stays, windows, _tell), as_table, as_json)


@click.command()
@click.option("--size", type=click.IntRange(min=60), default=200, show_default=True, help="Stays of a window.")
@click.option("--windows", type=click.IntRange(min=5), default=100, show_default=True, help="Windows a row.")
@_JSON
def places(size: int, windows: int, as_json: bool) -> None:
    """Faults in one ward, charting system, shift of the day or item id, and everywhere: what is named."""
    from dynamask_mlflow.experiments.drift.places import as_table, run_places

    _print(run_places(windows=windows, size=size, report=_tell), as_table, as_json)


@click.command()
@click.option(
    "--source", "sources", multiple=True, type=click.Choice(["physionet", "hospital"]), help="[default: both]"
)
@click.option("--stays", type=click.IntRange(min=100), default=400, show_default=True, help="Explained stays.")
@click.option("--years", type=click.IntRange(min=5), default=200, show_default=True, help="Of twelve audits each.")
@click.option("--checked", type=click.IntRange(min=0), default=2, show_default=True, help="Years judged in full, too.")
@_UPDATE
@_JSON
def years(sources: tuple[str, ...], stays: int, years: int, checked: int, update: str | None, as_json: bool) -> None:
    """Years of monthly audits in which nothing changes: how many have a false alarm, by arm."""
    from dynamask_mlflow.experiments.drift import SOURCES, update_document
    from dynamask_mlflow.experiments.drift.years import as_table, run_years

    rows, notes = run_years(sources or SOURCES, stays, years, checked, _tell)
    if update:
        update_document(update, "years", as_table(rows), notes)
    _print(rows, as_table, as_json)
    for note in notes:
        _tell(note)


@click.command()
@click.option(
    "--source", "sources", multiple=True, type=click.Choice(["physionet", "hospital"]), help="[default: both]"
)
@click.option("--series", type=click.IntRange(min=5), default=60, show_default=True, help="Of three windows each.")
@_UPDATE
@_JSON
def outcomes(sources: tuple[str, ...], series: int, update: str | None, as_json: bool) -> None:
    """A change of the outcome at 400 labelled stays a window: how soon it is found, and the best possible."""
    from dynamask_mlflow.experiments.drift import SOURCES, update_document
    from dynamask_mlflow.experiments.drift.outcomes import as_table, run_outcomes

    rows = run_outcomes(sources or SOURCES, series, _tell)
    if update:
        update_document(update, "outcomes", as_table(rows))
    _print(rows, as_table, as_json)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _print(rows: list[Any], as_table: Any, as_json: bool) -> None:
    from dynamask_mlflow.experiments.table import as_text

    click.echo(json.dumps([asdict(row) for row in rows], indent=2) if as_json else as_text(as_table(rows)))
