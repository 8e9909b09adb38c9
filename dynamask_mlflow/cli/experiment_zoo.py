"""dynamask-mlflow experiment zoo: registered models of many kinds, evaluated on data of known truth."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click


@click.command("zoo")
@click.option("--models", help="Names, separated by commas. Default: all.")
@click.option("--instances", type=click.IntRange(min=2), default=32, show_default=True, help="To explain, for each.")
@click.option("--seeds", default="0", show_default=True, help="Separated by commas; the table has the means.")
@click.option("--tracking-uri", help="Where to register the models. Default: a server of its own, thrown away.")
@click.option("--update", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Write the table here.")
@click.option("--list", "list_", is_flag=True, help="Only list the models.")
def zoo(
    models: str | None, instances: int, seeds: str, tracking_uri: str | None, update: Path | None, list_: bool
) -> None:
    """Train, register, evaluate: one model of each kind, and how well its masks find the planted cells.

    Each model is trained in seconds. Kinds whose packages are not installed are left out, and the table says so.
    """
    from dynamask_mlflow.experiments.zoo.entry import entries

    known = entries()
    if list_:
        for entry in known.values():
            click.echo(f"{entry.name}: {entry.about}")
        return
    names = [part.strip() for part in models.split(",") if part.strip()] if models else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.BadParameter(f"Expected models among {', '.join(known)}, but got {', '.join(unknown)}.")
    import mlflow
    import torch

    from dynamask_mlflow.experiments.table import as_text
    from dynamask_mlflow.experiments.zoo.page import write_table, zoo_table
    from dynamask_mlflow.experiments.zoo.run import run_zoo
    from dynamask_mlflow.experiments.zoo.servers import tracking_server

    numbers = _numbers(seeds)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        address = tracking_uri or running.enter_context(tracking_server(Path(scratch)))
        mlflow.set_tracking_uri(address)
        mlflow.set_experiment("zoo")
        chosen = [known[name] for name in names]
        rows = run_zoo(chosen, seeds=numbers, instances=instances, report=lambda line: click.echo(line, err=True))
    if update is None:
        click.echo(as_text(zoo_table(rows)))
        return
    command = f"dynamask-mlflow experiment zoo --instances {instances} --seeds {seeds} --update {update.as_posix()}"
    write_table(update, rows, command)
    click.echo(f"Wrote {update}.")


def _numbers(seeds: str) -> list[int]:
    try:
        return [int(part) for part in seeds.split(",") if part.strip()]
    except ValueError:
        raise click.BadParameter(f"Expected seeds such as 0,1,2, but got {seeds!r}.") from None
