"""`dynamask-mlflow evaluate`: a registered model and data to an MLflow run with masks, metrics and a report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynamask_mlflow.cli.common import (
    AS_JSON,
    TRACKING,
    check_address,
    parse_settings,
    quiet,
    read_settings,
    reported,
    track,
)
from dynamask_mlflow.cli.inputs import Reading, data_options, open_data
from dynamask_mlflow.cli.open_model import logged_settings
from dynamask_mlflow.cli.setting_flags import given_settings, setting_flags
from dynamask_mlflow.evaluation.config import EvaluationConfig

if TYPE_CHECKING:
    from dynamask_mlflow.evaluation.model_settings import ModelSettings
    from dynamask_mlflow.tracking.dataset import SequenceDataset

TYPES = {"classification": "classifier", "regression": "regressor"}
NOTHING_EXPLAINED = 1
SHOWN_FLAGS = ("instances", "ids", "sampling", "target", "method", "area", "fast", "hash_ids", "log_inputs")
# What is printed of the metrics, each beside that of random cells where there is one.
SHOWN = ("area", "entropy_normalized", "ce", "acc", "squared_error", "comprehensiveness", "sufficiency")


@click.command()
@click.argument("model")
@click.argument("data")
@data_options
@click.option("--task", type=click.Choice(list(TYPES)), help="For models that do not say what they are.")
@setting_flags(EvaluationConfig, shown=SHOWN_FLAGS)
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Settings as JSON or YAML.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One setting, for instance target=class:1.")
@click.option("--with-default", is_flag=True, help="Run MLflow's own evaluator as well; needs targets.")
@click.option("--experiment", default="dynamask", show_default=True)
@click.option("--run-name", default="evaluate", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Also put the report and the table into this folder.")
@TRACKING
@AS_JSON
def evaluate(model: str, data: str, as_json: bool, **options: Any) -> None:
    """Explain a sample of DATA with the registered MODEL; log masks, metrics and a report to a run.

    DATA is a folder of `data build`, an .npz with an array x (N, T, d), an .npy, a .csv or .parquet table with --id and
    --time, or a URI of a saved dataset.

    Exit codes: 0 done, 1 nothing was explained, 2 wrong usage, 3 error.

    \b
    dynamask-mlflow evaluate models:/icu-mortality@champion icu --sampling risk
    dynamask-mlflow evaluate models:/pump-failure/3 sensors.parquet --id pump --time second --targets failed \\
        --task classification --set area=0.1 --out results
    dynamask-mlflow evaluate models:/icu-mortality@champion stays.npz --json | jq .metrics
    """
    with reported(as_json):
        check_address(model)
        track(options.pop("tracking_uri"))
        given = {name: options.pop(name) for name in Reading.__dataclass_fields__}
        with quiet():
            dataset = open_data(data, Reading(**given), model)
            if options["with_default"] and dataset.targets is None:
                raise ValueError(
                    f"Expected targets with --with-default, but {data} has none: --targets names their column in a "
                    "table, and an .npz has them as `targets`."
                )
            quietly = None if not as_json else False
            done = run_evaluation(model, dataset, progress=quietly, flags=given_settings(), **options)
    if as_json:
        click.echo(json.dumps(done))
    else:
        say_evaluation(done)
    sys.exit(0 if done["explained"] else NOTHING_EXPLAINED)


def run_evaluation(
    model: str, dataset: SequenceDataset, *, experiment: str, run_name: str, out: Path | None, **options: Any
) -> dict[str, Any]:
    """Evaluate in a run of its own; returns what the command prints."""
    import mlflow

    kind = model_type(model, options["task"])
    ours = evaluation_settings(options["config_file"], options["settings"], options["flags"], logged_settings(model))
    ours.setdefault("progress", options["progress"])
    own = {"dynamask": ours}
    names: str | list[str] = "dynamask"
    if options["with_default"]:
        names, own = ["default", "dynamask"], {"default": {"log_model_explainability": False}, **own}
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=run_name) as run:
        result = mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            model=model,
            data=dataset,
            model_type=kind if options["with_default"] else f"sequence-{kind}",
            evaluators=names,
            evaluator_config=own if options["with_default"] else ours,
        )
    metrics = {name: float(value) for name, value in (result.metrics if result else {}).items()}
    done: dict[str, Any] = {
        "run_id": run.info.run_id,
        "experiment_id": run.info.experiment_id,
        "model": model,
        "dataset": {"name": dataset.name, "digest": dataset.digest, "instances": len(dataset.sequences)},
        "explained": int(metrics.get("dynamask/instances", 0)),
        "metrics": metrics,
        "report": f"runs:/{run.info.run_id}/dynamask/report.html",
        "table": f"runs:/{run.info.run_id}/dynamask_instances.json",
    }
    if out is not None and done["explained"]:
        done |= {name: _fetch(done[name], out) for name in ("report", "table")}
    return done


def model_type(uri: str, task: str | None) -> str:
    """ "classifier" or "regressor", by `task`, or else by what the logged model says of itself."""
    import mlflow

    flavors = mlflow.models.get_model_info(uri).flavors
    found = task or flavors.get("dynamask", {}).get("task")
    if found is None:
        listed = ", ".join(sorted(flavors))
        raise ValueError(
            f"Expected --task classification or --task regression, since {uri} ({listed}) does not say which it is."
        )
    return TYPES[found]


def evaluation_settings(
    config_file: Path | None,
    settings: tuple[str, ...],
    flags: dict[str, Any] | None = None,
    logged: ModelSettings | None = None,
) -> dict[str, Any]:
    """Of a file, then of --set, then of flags; checked before any model is loaded, with what it was logged with."""
    found = {**read_settings(config_file), **parse_settings(settings), **(flags or {})}
    if found.get("instances") == 0:
        found["instances"] = None
    EvaluationConfig.from_mapping({**(logged.explain_defaults if logged else {}), **found})
    return found


def say_evaluation(done: dict[str, Any]) -> None:
    metrics = done["metrics"]
    if not done["explained"]:
        click.secho("Nothing was explained; the warning above says why.", fg="yellow", bold=True)
        return
    explained, total = done["explained"], done["dataset"]["instances"]
    click.secho(f"Explained {explained} of {total} sequences in {metrics['dynamask/seconds']:.1f} s.", bold=True)
    click.echo(f"  {'metric':<24}{'masks':>10}{'random':>10}")
    for name in SHOWN:
        value, control = metrics.get(f"dynamask/{name}"), metrics.get(f"dynamask/{name}/random")
        if value is not None:
            click.echo(f"  {name:<24}{value:>10.4g}{'' if control is None else format(control, '>10.4g')}")
    failures = int(metrics.get("dynamask/failures", 0))
    if failures:
        click.secho(f"  {failures} sequences failed; dynamask/config.json names them.", fg="yellow")
    click.echo(f"Run     {done['run_id']}")
    click.echo(f"Report  {done['report']}")
    click.echo(f"Table   {done['table']}")


def _fetch(artifact: str, folder: Path) -> str:
    from mlflow.artifacts import download_artifacts

    folder.mkdir(parents=True, exist_ok=True)
    return str(download_artifacts(artifact_uri=artifact, dst_path=str(folder)))
