"""dynamask-mlflow experiment all: the whole set, logged, and the page of results from it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dynamask_mlflow.cli.common import CommandError


@click.command("all")
@click.option("--quick", is_flag=True, help="Few seeds and sequences, small models: all of it within the hour.")
@click.option("--only", help="Experiments, separated by commas. Default: all of the plan.")
@click.option("--methods", help="Names, separated by commas, or: ours, baselines. Default: all of the plan.")
@click.option(
    "--path",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The stays of mimic: PhysioNet 2012, the tables of MIMIC-III, or a dataset. Default: the synthetic hospital.",
)
@click.option("--tracking-uri", help="MLflow's; by default what MLflow is set to.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write. [default: docs/results.md, with --quick results-quick.md]",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be run.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of torch.")
def all_(
    quick: bool,
    only: str | None,
    methods: str | None,
    path: Path | None,
    tracking_uri: str | None,
    output: Path | None,
    dry_run: bool,
    threads: int,
) -> None:
    """Run every experiment with every method, then write the page of results.

    Everything is logged to MLflow, and what is logged already is not run again: a set that was cut short goes on where
    it stopped, also in the background (nohup dynamask-mlflow experiment all &).

    \b
    dynamask-mlflow experiment all --quick --dry-run
    """
    from dynamask_mlflow.experiments.plan import NAMES, OURS, baselines, open_experiments, planned_methods, planned_runs

    groups = {"ours": OURS, "baselines": baselines()}
    names = _words(only)
    chosen = _words(methods)
    chosen = chosen and [name for word in chosen for name in groups.get(word, (word,))]
    for given, known in ((names, NAMES), (chosen, planned_methods())):
        strange = [name for name in given or () if name not in known]
        if strange:
            raise CommandError(f"Expected names out of {', '.join(known)}, but got {', '.join(strange)}.")
    plan = list(planned_runs(names, chosen, quick))
    if dry_run:
        for run in plan:
            size = "quick" if quick else f"{run.seeds or 'all'} seeds x {run.instances or 'all'} sequences"
            click.echo(f"{run.experiment}, {size}: {', '.join(run.methods)}")
        return
    import torch
    from mlflow import MlflowClient

    from dynamask_mlflow.experiments.results_page import write_page
    from dynamask_mlflow.experiments.results_runs import read_sections
    from dynamask_mlflow.experiments.suite import run_planned

    torch.set_num_threads(threads)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    client = MlflowClient(tracking_uri=tracking_uri)
    failures = run_planned(
        plan,
        open_experiments(path),
        quick=quick,
        report=lambda line: click.echo(line, err=True),
        client=client,
        options={"mimic": "--path FOLDER"} if path else None,
    )
    page = output or Path("results-quick.md" if quick else "docs/results.md")
    write_page(read_sections(client, quick=quick), page)
    click.echo(f"Wrote {page}.")
    if failures:
        listed = "\n".join(f"  {f.experiment}, {f.method}: {f.reason}" for f in failures)
        raise CommandError(f"Expected every method to run, but {len(failures)} failed:\n{listed}")


def _words(text: str | None) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] if text else None
