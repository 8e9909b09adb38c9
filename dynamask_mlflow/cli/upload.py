"""`dynamask-mlflow upload`: finish what a lost tracking server interrupted."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("spool", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--tracking-uri", default=None, help="Another address of the server than the one in the spool.")
def upload(spool: Path, tracking_uri: str | None) -> None:
    """Upload the evaluation kept in the folder SPOOL to its run, then remove the folder."""
    from dynamask_mlflow.tracking.upload import upload as upload_spool

    try:
        manifest = upload_spool(spool, tracking_uri)
    except Exception as error:
        raise click.ClickException(f"{error}\nThe results are still in {spool}.") from error
    click.echo(
        f"Uploaded {len(manifest.points)} metrics and {len(manifest.files)} artifacts to run "
        f"{manifest.run_id} on {tracking_uri or manifest.tracking_uri}."
    )
