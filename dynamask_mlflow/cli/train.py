"""`dynamask-mlflow train`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dynamask_mlflow.cli.common import AS_JSON, TRACKING, reported, track
from dynamask_mlflow.cli.setting_flags import given_settings, setting_flags
from dynamask_mlflow.training.config import TrainConfig

if TYPE_CHECKING:
    from dynamask_mlflow.training import Epoch


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@TRACKING
@click.option("--experiment", default="dynamask", show_default=True)
@click.option("--name", "registered_model_name", default=None, help="Register under this name.")
@click.option("--alias", default="champion", show_default=True, help="Of the registered version; '' for none.")
@setting_flags(TrainConfig)
@AS_JSON
def train(
    dataset: Path,
    tracking_uri: str | None,
    experiment: str,
    registered_model_name: str | None,
    alias: str,
    as_json: bool,
) -> None:
    """Train the paper's GRU on a built DATASET, log it to MLflow, register it and set its alias.

    \b
    dynamask-mlflow train icu --name icu-mortality --alias champion
    dynamask-mlflow train icu --units 64 --epochs 20 --json
    """
    from dynamask_mlflow.data import StayDataset
    from dynamask_mlflow.training import train_and_register

    with reported(as_json):
        config = TrainConfig(**given_settings())
        loaded = StayDataset.load(dataset)
        track(tracking_uri)
        done = train_and_register(
            loaded,
            config,
            experiment=experiment,
            registered_model_name=registered_model_name,
            alias=alias or None,
            on_epoch=None if as_json else print_epoch,
        )
    if as_json:
        found = {"model_uri": done.model_uri, "version": done.version, "run_id": done.run_id, "scores": done.scores}
        click.echo(json.dumps(found))
        return
    click.echo(f"Test stays: {describe_scores(done.scores)}")
    click.echo(f"Model: {done.model_uri}" + (f" (alias {alias})" if done.version and alias else ""))


def print_epoch(epoch: Epoch) -> None:
    click.echo(
        f"  epoch {epoch.epoch + 1:>2}: loss {epoch.train_loss:.4f}, validation {epoch.validation_loss:.4f}, "
        f"AUROC {epoch.validation_auroc:.3f} ({epoch.seconds:.1f} s)"
    )


def describe_scores(scores: dict[str, float]) -> str:
    return (
        f"AUROC {scores['auroc']:.3f}, AUPRC {scores['auprc']:.3f}, calibration error "
        f"{scores['calibration_error']:.3f} (predicted {scores['predicted_rate']:.1%}, "
        f"observed {scores['observed_rate']:.1%})."
    )
