"""dynamask-mlflow experiment change: is what changed since hour 24 found, where the onset is planted?"""

from __future__ import annotations

from pathlib import Path

import click


@click.command("change")
@click.option("--models", help="Architectures, separated by commas. Default: all.")
@click.option(
    "--seeds", help="reported, choosing, or numbers separated by commas.", default="reported", show_default=True
)
@click.option("--instances", type=click.IntRange(min=1), help="Onsets of each seed. Default: all.")
@click.option("--quick", is_flag=True, help="A small hospital and models of two epochs: a smoke test.")
@click.option("--update", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Write the table here.")
def change(models: str | None, seeds: str, instances: int | None, quick: bool, update: Path | None) -> None:
    """Planted onsets: how well explain_change finds their cells, beside differences of two explanations.

    Hospitals are made and models trained on first use, and kept.
    """
    import torch

    from dynamask_mlflow.experiments.change import CHOOSING_SEEDS, REPORTED_SEEDS, change_table, notes, run_change
    from dynamask_mlflow.experiments.change import update_page as write
    from dynamask_mlflow.experiments.change_models import ARCHITECTURES
    from dynamask_mlflow.experiments.table import as_text

    torch.set_num_threads(1)
    named = {"reported": REPORTED_SEEDS, "choosing": CHOOSING_SEEDS}
    try:
        numbers = named[seeds] if seeds in named else tuple(int(part) for part in seeds.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(f"Expected reported, choosing, or numbers such as 0,1, but got {seeds!r}.") from None
    chosen = [part.strip() for part in models.split(",") if part.strip()] if models else list(ARCHITECTURES)
    try:
        trials = run_change(chosen, numbers, instances, quick, report=lambda line: click.echo(line, err=True))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    words = ["dynamask-mlflow experiment change", f"--seeds {seeds}"]
    words += [f"--models '{models}'"] if models else []
    words += [f"--instances {instances}"] if instances else []
    words += ["--quick"] if quick else []
    if update is None:
        click.echo("\n".join([as_text(change_table(trials)), *notes(trials, " ".join(words))]))
        return
    write(update, trials, " ".join([*words, f"--update {update.as_posix()}"]))
    click.echo(f"Wrote {update}.")
