"""`dynamask-mlflow airflow-demo`: from nothing to the first verdict on a real scheduler, in one command."""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dynamask_mlflow.audit.identity import EXPERIMENT
from dynamask_mlflow.cli.common import AS_JSON, CommandError, reported

if TYPE_CHECKING:
    from dynamask_mlflow.cli.airflow_local import Deployment

REFERENCE, AUDIT = "explanation_reference", "explanation_audit"
# A small hospital and small samples, so that a trial takes minutes.
STAYS = 2000
SETTINGS = {"reference_instances": 150, "instances": 80, "minimum": 50, "time_unit": "hour"}


@click.command("airflow-demo")
@click.option("--stays", type=int, help=f"Size of the hospital. [default: {STAYS}, or what the demo has made]")
@click.option("--window", default="2024-09", show_default=True, help="The month to audit.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path(".demo"), show_default=True)
@click.option("--keep", is_flag=True, help="Leave Airflow running, to look around, until Ctrl-C.")
@AS_JSON
def airflow_demo(stays: int | None, window: str, folder: Path, keep: bool, as_json: bool) -> None:
    """Start an Airflow on this machine, give the demo's model a reference, and audit a month with a planted fault.

    Uses the dataset and the model of `dynamask-mlflow demo` if they are there, and makes small ones if not.
    Exit codes: 0 a verdict was reached, whatever it says; 3 error.

    \b
    dynamask-mlflow airflow-demo
    dynamask-mlflow airflow-demo --window 2024-03 --keep
    """
    with reported(as_json):
        try:
            import airflow.sdk  # noqa: F401
        except ImportError as error:
            raise CommandError("Expected Airflow: pip install 'dynamask_mlflow[airflow,data]'.") from error
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            found = _trial(folder.absolute(), stays, window, keep)
        if as_json:
            click.echo(json.dumps(found))


def _trial(folder: Path, stays: int | None, window: str, keep: bool) -> dict[str, str | float]:
    """Dataset and model, a whole Airflow, the reference, the audit; what the audit found."""
    from dynamask_mlflow.cli.airflow_local import local_airflow

    begun = time.perf_counter()
    uri = _prepare(folder, stays)
    server = local_airflow(folder / "airflow", Path(str(files("dynamask_mlflow.orchestration.example_dags"))))
    server.env.update(
        {
            "MLFLOW_TRACKING_URI": uri,
            "DYNAMASK_MODEL": "models:/icu-mortality@champion",
            "DYNAMASK_DATASET": str(folder / "dataset"),
            "DYNAMASK_STORE": str(folder / "shards"),
            "DYNAMASK_REFERENCE_WINDOW": "2023",
            "DYNAMASK_SETTINGS": json.dumps(SETTINGS),
        }
    )
    try:
        click.secho("[4/4] Airflow: API server, scheduler, DAG processor", bold=True)
        server.start_core()
        click.echo(f"      http://127.0.0.1:{server.port}, its files in {server.folder}")
        first_verdict(server, window)
        found = read_verdict(uri, window)
        seconds = time.perf_counter() - begun
        click.secho(f"      {window}: {found['state'].upper()}. {found['reason']}", bold=True)
        click.echo(f"Done in {seconds:.0f} s. The run in MLflow is {found['run_id']}; to open it: make ui")
        if keep:
            click.echo("Airflow is running until Ctrl-C.")
            _wait_for_interrupt()
    finally:
        server.stop()
    return {**found, "seconds": round(seconds, 1)}


def first_verdict(server: Deployment, window: str) -> None:
    """The reference, whose run begins when it is unpaused; then the audit of a window, which is triggered."""
    for dag in (REFERENCE, AUDIT):
        server.wait(lambda dag=dag: server.call("GET", f"dags?dag_id_pattern={dag}")["dags"], 600, dag)  # type: ignore[misc]
    begun = time.perf_counter()
    server.call("PATCH", f"dags/{REFERENCE}", {"is_paused": False})
    runs = server.wait(
        lambda: server.call("GET", f"dags/{REFERENCE}/dagRuns")["dag_runs"], 600, f"a run of {REFERENCE}"
    )
    _finish(server, REFERENCE, str(runs[0]["dag_run_id"]), begun)
    begun = time.perf_counter()
    asked = {"logical_date": None, "conf": {"window": window}}
    run = server.call("POST", f"dags/{AUDIT}/dagRuns", asked)["dag_run_id"]
    server.call("PATCH", f"dags/{AUDIT}", {"is_paused": False})
    _finish(server, AUDIT, str(run), begun)


def _finish(server: Deployment, dag: str, run: str, begun: float) -> None:
    state = server.wait_for_run(dag, run, 900)
    click.echo(f"      {dag}: {state} ({time.perf_counter() - begun:.0f} s)")
    if state != "success":
        raise CommandError(f"Expected {dag} to succeed, but it ended as {state}; see {server.folder / 'logs'}.")


def read_verdict(uri: str, window: str) -> dict[str, str]:
    """What the audit of a window found, from the tags of its MLflow run."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    home = client.get_experiment_by_name(EXPERIMENT)
    wanted = f"tags.`dynamask.kind` = 'audit' and tags.`dynamask.window` = '{window}'"
    runs = client.search_runs([home.experiment_id], wanted) if home else []
    if not runs:
        raise CommandError(f"Expected an audit of {window} in MLflow, but there is none.")
    tags = runs[0].data.tags
    return {
        "window": window,
        "state": tags["dynamask.verdict"],
        "reason": json.loads(tags["dynamask.finding"])["reason"],
        "run_id": runs[0].info.run_id,
    }


def _prepare(folder: Path, stays: int | None) -> str:
    """The first three steps of the demo, hospital, dataset and registered model, unless they are there."""
    from dynamask_mlflow.cli.demo_steps import STEPS, DemoSettings, DemoState, has_champion, quiet, store_uri

    uri = store_uri(folder)
    with quiet():
        if stays is None and (folder / "dataset" / "dataset.json").is_file() and has_champion(uri):
            click.secho(f"[1-3/4] Dataset and model are in {folder}", bold=True)
            return uri
        state = DemoState(DemoSettings(folder, stays or STAYS, 24, 0, 64, False))
        for number, (title, step) in enumerate(STEPS[:3], 1):
            click.secho(f"[{number}/4] {title}", bold=True)
            state = step(state)
    return uri


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return
