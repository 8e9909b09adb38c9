"""`dynamask-mlflow upload`: finish what a lost tracking server interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dynamask_mlflow.cli.common import AS_JSON, CommandError, reported, tell


@click.command()
@click.argument("spool", type=click.Path(path_type=Path), required=False)
@click.option("--tracking-uri", default=None, help="Another address of the server than the one in the spool.")
@click.option("--list", "listed", is_flag=True, help="List results that were never uploaded.")
@click.option("--in", "folder", type=click.Path(path_type=Path), help="With --list: look in this folder only.")
@AS_JSON
def upload(spool: Path | None, tracking_uri: str | None, listed: bool, folder: Path | None, as_json: bool) -> None:
    """Upload the evaluation kept in the folder SPOOL to its run, end the run, and remove the folder.

    \b
    dynamask-mlflow upload --list
    dynamask-mlflow upload /tmp/dynamask-0a1b2c3d4e5f-x
    """
    if listed:
        with reported(as_json):
            _list(folder, as_json)
        return
    if spool is None:
        raise click.UsageError("Expected the folder SPOOL, or --list.")
    from dynamask_mlflow._secrets import first_line, without_secrets
    from dynamask_mlflow.tracking.upload import patiently
    from dynamask_mlflow.tracking.upload import upload as upload_spool

    with reported(as_json):
        try:
            manifest = patiently(lambda: upload_spool(spool, tracking_uri, end_run=True))
        except Exception as error:
            kept = f"\nThe results are still in {spool}." if spool.is_dir() else ""
            raise CommandError(f"{first_line(error)}{kept}") from error
    where = without_secrets(tracking_uri or manifest.tracking_uri)
    metrics, artifacts = len(manifest.points), len(manifest.files)
    if as_json:
        found = {"run_id": manifest.run_id, "tracking_uri": where, "metrics": metrics, "artifacts": artifacts}
        click.echo(json.dumps(found))
        return
    click.echo(f"Uploaded {metrics} metrics and {artifacts} artifacts to run {manifest.run_id} on {where}.")


def _list(folder: Path | None, as_json: bool) -> None:
    from datetime import datetime

    from dynamask_mlflow._secrets import without_secrets
    from dynamask_mlflow.tracking.errors import SpoolError
    from dynamask_mlflow.tracking.spool import find_spools, read_manifest

    found = find_spools(None if folder is None else [folder])
    rows = []
    for spool in found:
        when = datetime.fromtimestamp(spool.created).isoformat(" ", "minutes")
        if not spool.complete:
            state = "being written" if spool.in_use else "unfinished, cannot be uploaded; it may be deleted"
        else:
            try:
                manifest = read_manifest(spool.path, verify=False)
                state = f"run {manifest.run_id} on {without_secrets(manifest.tracking_uri)}"
            except SpoolError as error:
                state = f"damaged: {error}"
        rows.append({"created": when, "spool": str(spool.path), "state": state})
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        tell("  ".join(row.values()))
    if not rows:
        click.echo("Nothing waits to be uploaded.")
