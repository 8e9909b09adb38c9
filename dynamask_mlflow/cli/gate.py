"""`dynamask-mlflow gate`: may a version be promoted? Exit codes: 0 passed, 1 refused, 2 inconclusive, 3 error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dynamask_mlflow.cli.audit import open_settings, shared_options, tell_shard
from dynamask_mlflow.cli.common import read_settings, reported, tell


@click.command()
@click.option("--model", required=True, help="The version to be promoted.")
@click.option("--against", required=True, help="The version in use: models:/name/version, or @alias of the same model.")
@click.option("--window", default="all", show_default=True, help="Whose stays both versions explain.")
@click.option("--split", default=None, help="Only stays of this split.")
@click.option("--limits", "limits_file", type=click.Path(path_type=Path), help="Limits as JSON or YAML.")
@click.option("--no-record", is_flag=True, help="Leave the tags of the version alone.")
@shared_options
def gate(against: str, limits_file: Path | None, as_json: bool, **options: Any) -> None:
    """May a version be promoted? Exit codes: 0 passed, 1 refused, 2 inconclusive, 3 error.

    \b
    dynamask-mlflow gate --model models:/icu-mortality/5 --against @champion \\
                         --data icu --window 2026-03 --limits gate.yaml
    """
    with reported(as_json):
        from dynamask_mlflow.audit import AuditSource, GateLimits, run_gate
        from dynamask_mlflow.audit.workers import default_processes

        what = {name: options.pop(name) for name in ("model", "data", "window", "store", "split")}
        record, processes = not options.pop("no_record"), options.pop("processes")
        config = open_settings(**options)
        limits = GateLimits.from_mapping(read_settings(limits_file))
        result = run_gate(
            AuditSource(**what),
            against,
            limits=limits,
            config=config,
            processes=processes or default_processes(config.instances, config),
            record=record,
            progress=None if as_json else tell_shard,
        )
        if as_json:
            click.echo(result.to_json())
        else:
            title = f"{result.model} version {result.version} against version {result.against}, {result.window}"
            colour = {"passed": "green", "refused": "red"}.get(result.state, "yellow")
            tell(f"{result.state.upper()}  {title}", fg=colour, bold=True)
            for reason in result.reasons:
                tell(f"  {reason}")
    sys.exit(result.state.exit_code)
