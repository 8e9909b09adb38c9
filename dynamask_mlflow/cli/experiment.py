"""dynamask-mlflow experiment: run an experiment, print its table, log it to MLflow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynamask_mlflow.cli.common import CommandError
from dynamask_mlflow.cli.experiment_all import all_
from dynamask_mlflow.cli.experiment_arena import ablation, arena, coefficients
from dynamask_mlflow.cli.experiment_audits import outcomes, places, subgroups, years
from dynamask_mlflow.cli.experiment_change import change
from dynamask_mlflow.cli.experiment_forward import forward
from dynamask_mlflow.cli.experiment_zoo import zoo

if TYPE_CHECKING:
    from dynamask_mlflow.experiments.protocol import Experiment

Command = Callable[..., Any]


def parse_seeds(text: str | None) -> list[int] | None:
    """ "3" means 0, 1, 2; "4,7" means 4 and 7; "4," means 4 alone."""
    if text is None:
        return None
    try:
        if "," in text:
            return [int(part) for part in text.split(",") if part.strip()]
        return list(range(int(text)))
    except ValueError:
        raise click.BadParameter(f"Expected a number of seeds, or a list such as 0,1,2, but got {text!r}.") from None


def parse_methods(text: str | None) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] if text else None


_SHARED = [
    click.option("--seeds", help="How many seeds, or which: 5, or 0,3,4. Default: as many as the paper."),
    click.option("--methods", help="Names, separated by commas. Default: nested."),
    click.option("--instances", type=click.IntRange(min=1), help="Sequences to explain for each seed."),
    click.option("--quick", is_flag=True, help="Few seeds and instances, small models: a smoke test."),
    click.option("--log", is_flag=True, help="Log to MLflow; (seed, method) pairs already logged are not repeated."),
    click.option("--fresh", is_flag=True, help="With --log: repeat everything in a new parent run."),
    click.option(
        "--figures",
        type=click.Path(file_okay=False, path_type=Path),
        help="Draw the figures into this folder; with --log they are logged in any case.",
    ),
    click.option("--format", "form", type=click.Choice(["svg", "png"]), default="svg", show_default=True),
    click.option("--json", "as_json_", is_flag=True, help="Print JSON instead of a table."),
    click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of torch."),
]


def shared_options(command: Command) -> Command:
    for option in reversed(_SHARED):
        command = option(command)
    return command


class _Experiments(click.Group):
    """The help of each experiment ends with what to type for a first look, unless its text has an example."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        if "dynamask-mlflow experiment" not in (cmd.help or ""):
            quick = " --quick" if any(parameter.name == "quick" for parameter in cmd.params) else ""
            cmd.epilog = f"dynamask-mlflow experiment {name or cmd.name}{quick}"
        super().add_command(cmd, name)


@click.group(cls=_Experiments)
def experiment() -> None:
    """Run an experiment with known salient cells and print its table."""


experiment.add_command(all_)
experiment.add_command(arena)
experiment.add_command(ablation)
experiment.add_command(coefficients)
experiment.add_command(zoo)
experiment.add_command(forward)
experiment.add_command(subgroups)
experiment.add_command(places)
experiment.add_command(outcomes)
experiment.add_command(years)
experiment.add_command(change)


@experiment.command("rare-feature")
@shared_options
def rare_feature(**options: Any) -> None:
    """A white-box regressor that reads 5 of 50 features."""
    from dynamask_mlflow.experiments.registry import rare_experiment

    _run(rare_experiment("feature"), **options)


@experiment.command("rare-time")
@shared_options
def rare_time(**options: Any) -> None:
    """A white-box regressor that reads 5 of 50 times."""
    from dynamask_mlflow.experiments.registry import rare_experiment

    _run(rare_experiment("time"), **options)


@experiment.command("state")
@click.option("--literal", is_flag=True, help="The paper's transition matrix to the letter: a state without memory.")
@shared_options
def state(literal: bool, **options: Any) -> None:
    """A GRU whose label at each step obeys the feature that a hidden state chooses."""
    from dynamask_mlflow.experiments.registry import state_experiment
    from dynamask_mlflow.experiments.state import StateSetting

    _run(state_experiment(StateSetting(stay=None) if literal else None), **options)


@experiment.command("motif")
@click.option(
    "--family",
    "families",
    type=click.Choice(["gru", "lstm", "tcn", "transformer"]),
    multiple=True,
    default=("gru",),
    show_default=True,
    help="May be given several times, as may length and strength: a table for each combination.",
)
@click.option("--length", "lengths", type=click.IntRange(3, 20), multiple=True, default=(8,), show_default=True)
@click.option("--shape", type=click.Choice(["bump", "zigzag"]), default="bump", show_default=True)
@click.option(
    "--strength",
    "strengths",
    type=float,
    multiple=True,
    default=(10.0,),
    show_default=True,
    help="Root of energy over background.",
)
@shared_options
def motif(
    families: tuple[Any, ...], lengths: tuple[int, ...], shape: Any, strengths: tuple[float, ...], **options: Any
) -> None:
    """One label a sequence, decided by a short pattern in a channel that matters."""
    from itertools import product

    from dynamask_mlflow.experiments.motif import MotifSetting
    from dynamask_mlflow.experiments.registry import motif_experiment

    for family, length, strength in product(families, lengths, strengths):
        setting = MotifSetting(length=length, shape=shape, strength=strength)
        _run(motif_experiment(setting, family), **options)


@experiment.command("mimic")
@click.option(
    "--path",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="PhysioNet 2012, the tables of MIMIC-III, or a built dataset. Default: the synthetic hospital.",
)
@shared_options
def mimic(path: Path | None, **options: Any) -> None:
    """A mortality model: its risk with the most important cells replaced by their mean over time."""
    from dynamask_mlflow.experiments.mimic import mimic_experiment

    try:
        chosen = mimic_experiment(path)
    except ValueError as error:
        raise CommandError(str(error)) from error
    _run(chosen, **options)


@experiment.command("mimic-shaped")
@shared_options
def mimic_shaped(**options: Any) -> None:
    """The same for 48 hours x 32 channels of the synthetic hospital, with every method at hand by default."""
    from dynamask_mlflow.experiments.mimic import mimic_experiment
    from dynamask_mlflow.experiments.plan import mimic_methods

    methods = options.pop("methods") or ",".join(mimic_methods())
    _run(mimic_experiment(), methods=methods, **options)


@experiment.command("hospital")
@shared_options
def hospital(**options: Any) -> None:
    """Stays in the synthetic hospital: how well the planted cells are found, by predicted risk."""
    from dynamask_mlflow.experiments.hospital import hospital_experiment

    _run(hospital_experiment(), **options)


@experiment.command("perturbation")
@shared_options
def perturbation(**options: Any) -> None:
    """Whether masks of three perturbation operators agree, on the state experiment."""
    from dynamask_mlflow.experiments.perturbation import perturbation_experiment

    _run(perturbation_experiment(), **options)


@experiment.command("results")
@click.option("--tracking-uri", help="MLflow's; by default what MLflow is set to.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("docs/results.md"),
    show_default=True,
    help="The page to write; - prints it.",
)
@click.option("--quick", is_flag=True, help="Show quick runs too.")
def results(tracking_uri: str | None, output: Path, quick: bool) -> None:
    """Write the page of results, and its images beside it, from the runs that were logged with --log."""
    from mlflow import MlflowClient

    from dynamask_mlflow.experiments.results_page import results_page, write_page
    from dynamask_mlflow.experiments.results_runs import read_sections

    try:
        sections = read_sections(MlflowClient(tracking_uri=tracking_uri), quick=quick)
        if str(output) == "-":
            click.echo(results_page(sections), nl=False)
            return
        write_page(sections, output)
    except ValueError as error:
        raise CommandError(str(error)) from error
    click.echo(f"Wrote {output}.")


@experiment.command("drift")
@click.option(
    "--source", "sources", multiple=True, type=click.Choice(["physionet", "hospital"]), help="[default: both]"
)
@click.option("--replicates", type=click.IntRange(min=10), default=200, show_default=True, help="Windows a row.")
@click.option("--years", type=click.IntRange(min=0), default=300, show_default=True, help="Years of monthly audits.")
@click.option("--stays", type=click.IntRange(min=100), help="Explained of each data set. [default: all]")
@click.option("--versions/--no-versions", default=True, help="New versions, canary and calendar, too.")
@click.option("--refitted/--no-refitted", default=True, help="Changes of the inputs, too: stays are explained anew.")
@click.option("--choosing", is_flag=True, help="The stays on which the limits were chosen, not those reported.")
@click.option("--quick", is_flag=True, help="Few stays and windows: a smoke test.")
@click.option("--update", type=click.Path(exists=True), help="Write the table into this Markdown file.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON instead of a table.")
def drift(sources: tuple[str, ...], update: str | None, as_json_: bool, **options: Any) -> None:
    """How often audits are right, with nothing changed and with known changes."""
    import json
    from dataclasses import asdict

    from dynamask_mlflow.experiments.drift import SOURCES, Scale, as_table, run_drift, update_document
    from dynamask_mlflow.experiments.table import as_text

    try:
        scale = Scale(**options)
        rows, notes = run_drift(sources or SOURCES, scale, lambda line: click.echo(line, err=True))
    except ValueError as error:
        raise CommandError(str(error)) from error
    if update:
        update_document(update, "drift", as_table(rows), notes)
    if as_json_:
        click.echo(json.dumps({"rows": [asdict(row) for row in rows], "notes": notes}, indent=2))
    else:
        click.echo("\n".join([as_text(as_table(rows)), *notes]))


def _command() -> str:
    """What was typed, without what says how to run and report rather than what."""
    from click.core import ParameterSource

    context = click.get_current_context()
    words = ["dynamask-mlflow experiment", str(context.info_name)]
    for option in context.command.params:
        name = str(option.name)
        left_out = name in ("seeds", "methods", "log", "fresh", "as_json_", "figures", "form")
        if left_out or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        # A folder of this machine means nothing elsewhere.
        shown = "FOLDER" if isinstance(value, Path) else value
        words.append(option.opts[0] if value is True else f"{option.opts[0]} {shown}")
    return " ".join(words)


@dataclass(frozen=True, kw_only=True)
class _Options:
    """The options of `shared_options`."""

    seeds: str | None
    methods: str | None
    instances: int | None
    quick: bool
    log: bool
    fresh: bool
    figures: Path | None
    form: str
    as_json_: bool
    threads: int


def _run(chosen: Experiment, **given: Any) -> None:
    options = _Options(**given)
    import torch

    from dynamask_mlflow.experiments.protocol import run_experiment
    from dynamask_mlflow.experiments.table import as_json, as_text, rows
    from dynamask_mlflow.experiments.tracking import MlflowStore

    torch.set_num_threads(options.threads)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    count = options.instances or (chosen.quick_instances if options.quick else chosen.instances)
    settings = {"instances": count, "quick": options.quick}
    store = MlflowStore(chosen, settings, fresh=options.fresh, command=_command()) if options.log else None
    try:
        result = run_experiment(
            chosen,
            methods=parse_methods(options.methods),
            seeds=parse_seeds(options.seeds),
            instances=count,
            quick=options.quick,
            store=store,
            report=lambda line: click.echo(line, err=True),
        )
    except ValueError as error:
        raise CommandError(str(error)) from error
    with tempfile.TemporaryDirectory() as scratch:
        drawn = []
        if (options.log or options.figures) and result.trials:
            from dynamask_mlflow.experiments.figures import draw_figures

            case = chosen.make_case(result.trials[0].seed, count, options.quick)
            drawn = draw_figures(chosen.title, result, case, options.figures or Path(scratch), options.form)
        if store:
            store.finish(result, drawn)
    if options.as_json_:
        click.echo(as_json(chosen, result))
    else:
        click.echo(chosen.title)
        click.echo(as_text(rows(chosen, result)))
