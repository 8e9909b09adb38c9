"""`dynamask-mlflow experiment subgroups | places`: are subgroups and the places of faults right?"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


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


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _print(rows: list[Any], as_table: Any, as_json: bool) -> None:
    from dynamask_mlflow.experiments.table import as_text

    click.echo(json.dumps([asdict(row) for row in rows], indent=2) if as_json else as_text(as_table(rows)))
