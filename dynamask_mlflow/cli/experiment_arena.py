"""dynamask-mlflow experiment arena: methods on tasks of known truth, and the page of their results."""

from __future__ import annotations

from pathlib import Path

import click

from dynamask_mlflow.cli.common import CommandError


@click.command("arena")
@click.option("--rows", help="Rows, tasks or families, separated by commas. Default: all.")
@click.option("--methods", help="ours, ig-best or methods of the package. Default: ours and gradients.")
@click.option(
    "--seeds",
    help="reported, choosing, or numbers separated by commas.",
    default="reported",
    show_default=True,
)
@click.option("--instances", type=click.IntRange(min=1), default=24, show_default=True, help="For each row and seed.")
@click.option("--update", type=click.Path(dir_okay=False, path_type=Path), help="Write the page to this file.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of torch.")
@click.option("--list", "list_", is_flag=True, help="Only list the rows.")
def arena(
    rows: str | None,
    methods: str | None,
    seeds: str,
    instances: int,
    update: Path | None,
    threads: int,
    list_: bool,
) -> None:
    """Find planted cells: ours, integrated gradients and other methods on many tasks and architectures.

    Models are trained on first use, about 10 minutes a seed. Results are kept, so that an interrupted run goes on where
    it stopped; they are computed anew when the code of a method changes.

    \b
    dynamask-mlflow experiment arena --list
    dynamask-mlflow experiment arena --rows rare --seeds 0
    """
    import torch

    from dynamask_mlflow.experiments.arena.page import arena_page, ranking_table
    from dynamask_mlflow.experiments.arena.rows import CHOOSING_SEEDS, REPORTED_SEEDS, ROWS
    from dynamask_mlflow.experiments.arena.run import DEFAULT_METHODS, run_arena
    from dynamask_mlflow.experiments.table import as_text

    if list_:
        for row in ROWS:
            click.echo(f"{row.name}{' (held out)' if row.held_out else ''}")
        return
    torch.set_num_threads(threads)
    named = {"reported": REPORTED_SEEDS, "choosing": CHOOSING_SEEDS}
    try:
        numbers = named[seeds] if seeds in named else tuple(int(part) for part in seeds.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(f"Expected reported, choosing, or numbers such as 0,1, but got {seeds!r}.") from None
    try:
        results = run_arena(
            _words(rows),
            _words(methods) or DEFAULT_METHODS,
            numbers,
            instances,
            report=lambda line: click.echo(line, err=True),
        )
    except ValueError as error:
        raise CommandError(str(error)) from error
    if update:
        update.write_text(arena_page(results, _command(rows, methods, seeds, instances, update)), encoding="utf-8")
        click.echo(f"Wrote {update}.")
    else:
        click.echo(as_text(ranking_table(results)))


@click.command("ablation")
@click.option("--seeds", help="Numbers separated by commas.", default="100", show_default=True)
@click.option("--instances", type=click.IntRange(min=1), default=12, show_default=True, help="For each row and seed.")
@click.option("--update", type=click.Path(dir_okay=False, path_type=Path), help="Write the page to this file.")
def ablation(seeds: str, instances: int, update: Path | None) -> None:
    """Leave out each part of the default in turn, and see what it costs on the arena.

    Results are kept, so that an interrupted run goes on where it stopped.

    \b
    dynamask-mlflow experiment ablation --seeds 0
    """
    import torch

    from dynamask_mlflow.experiments.arena.ablation import ablation_page, ablation_table, run_ablation
    from dynamask_mlflow.experiments.table import as_text

    torch.set_num_threads(1)
    try:
        numbers = [int(part) for part in seeds.split(",") if part.strip()]
    except ValueError:
        raise click.BadParameter(f"Expected numbers such as 100,101, but got {seeds!r}.") from None
    found = run_ablation(numbers, instances, report=lambda line: click.echo(line, err=True))
    if update is None:
        click.echo(as_text(ablation_table(found)))
        return
    command = f"dynamask-mlflow experiment ablation --seeds {seeds} --instances {instances} --update {update}"
    update.write_text(ablation_page(found, numbers, instances, command), encoding="utf-8")
    click.echo(f"Wrote {update}.")


@click.command("coefficients")
@click.option("--rows", help="Rows, tasks or families, separated by commas. Default: all that are not held out.")
@click.option("--instances", type=click.IntRange(min=1), default=24, show_default=True, help="For each row and seed.")
@click.option("--forward", is_flag=True, help="Of models without gradients.")
def coefficients(rows: str | None, instances: int, forward: bool) -> None:
    """Fit the weights of the mask coefficients anew, and compare them with those of the package.

    A logistic regression of planted truth on what the coefficients depend on, over the arena's choosing seeds and its
    families that are not held out. Takes about ten minutes once the models are trained.
    """
    import torch

    from dynamask_mlflow.experiments.arena.coefficient_fit import fit_coefficients, open_rows, weights_table
    from dynamask_mlflow.experiments.arena.outcome import OURS
    from dynamask_mlflow.experiments.arena.rows import CHOOSING_SEEDS
    from dynamask_mlflow.experiments.arena.run import chosen_rows
    from dynamask_mlflow.experiments.table import as_text

    torch.set_num_threads(1)
    try:
        named = set(chosen_rows(_words(rows)))
        chosen = [row for row in open_rows() if row in named]
        if not chosen:
            raise ValueError(f"Expected rows that are not held out and answer once a sequence, but got {rows!r}.")
        method = "forward" if forward else OURS
        fitted = fit_coefficients(
            CHOOSING_SEEDS, instances, chosen, report=lambda line: click.echo(line, err=True), method=method
        )
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    click.echo(as_text(weights_table(fitted, method)))


def _command(rows: str | None, methods: str | None, seeds: str, instances: int, update: Path) -> str:
    words = ["dynamask-mlflow experiment arena", f"--seeds {seeds}", f"--instances {instances}"]
    words += [f"--rows {rows}"] if rows else []
    words += [f"--methods {methods}"] if methods else []
    return " ".join([*words, f"--update {update.as_posix()}"])


def _words(text: str | None) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] if text else None
