"""dynamask-mlflow experiment forward: what hiding the gradients of a network costs."""

from __future__ import annotations

from pathlib import Path

import click

START, END = "<!-- hidden gradients: begin -->", "<!-- hidden gradients: end -->"


@click.command("forward")
@click.option("--rows", help="Rows, tasks or families of the arena, separated by commas. Default: one-event tasks.")
@click.option("--seeds", default="100,101,102", show_default=True, help="Separated by commas.")
@click.option("--instances", type=click.IntRange(min=2), default=16, show_default=True, help="For each row and seed.")
@click.option("--budget", type=click.IntRange(min=60), default=300, show_default=True, help="Passes an instance.")
@click.option("--update", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Write the table here.")
def forward(rows: str | None, seeds: str, instances: int, budget: int, update: Path | None) -> None:
    """Explain networks by gradients and, with their gradients hidden, by forward passes alone.

    Results are kept, so that an interrupted run goes on where it stopped.
    """
    import torch

    from dynamask_mlflow.experiments.arena.hidden_gradients import (
        calibration_of,
        compare_hidden,
        hidden_table,
        one_event_rows,
    )
    from dynamask_mlflow.experiments.arena.run import chosen_rows
    from dynamask_mlflow.experiments.table import as_markdown, as_text

    try:
        numbers = [int(part) for part in seeds.split(",") if part.strip()]
        chosen = chosen_rows([part.strip() for part in rows.split(",")]) if rows else one_event_rows()
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    torch.set_num_threads(1)
    found = compare_hidden(chosen, numbers, instances, budget, report=lambda line: click.echo(line, err=True))
    if update is None:
        click.echo(as_text(hidden_table(found)))
        return
    text = update.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise click.ClickException(f"Expected the marks {START} and {END} in {update}, but they are missing.")
    words = f"--rows {rows} " if rows else ""
    command = f"dynamask-mlflow experiment forward {words}--seeds {seeds} --instances {instances} --update {update}"
    calibration = f"Expected calibration error of the forward coefficients: {calibration_of(found):.3f}."
    made = f"Written by `{command}`. {calibration}\n\n{as_markdown(hidden_table(found)).strip()}"
    before, after = text.partition(START)[0], text.partition(END)[2]
    update.write_text(f"{before}{START}\n{made}\n{END}{after}", encoding="utf-8")
    click.echo(f"Wrote {update}.")
