"""`dynamask-mlflow airflow-demo`: from nothing to the first verdict on a real scheduler, in one command."""

from __future__ import annotations

import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dynamask_mlflow.cli.common import CommandError, reported

if TYPE_CHECKING:
    from dynamask_mlflow.cli.airflow_local import Deployment

REFERENCE, AUDIT = "explanation_reference", "explanation_audit"


@click.command("airflow-demo")
@click.option("--stays", type=int, default=3000, show_default=True, help="Size of the hospital.")
@click.option("--window", default="2024-09", show_default=True, help="The month to audit.")
@click.option("--folder", type=click.Path(path_type=Path), default=Path(".demo"), show_default=True)
@click.option("--keep", is_flag=True, help="Leave Airflow running, to look around, until Ctrl-C.")
def airflow_demo(stays: int, window: str, folder: Path, keep: bool) -> None:
    """Start an Airflow on this machine, give the demo's model a reference, and audit a month with a planted fault.

    Exit codes: 0 a verdict was reached, 3 error.

    \b
    dynamask-mlflow airflow-demo
    dynamask-mlflow airflow-demo --window 2024-03 --keep
    """
    try:
        import airflow.sdk  # noqa: F401
    except ImportError as error:
        raise CommandError("Expected Airflow: pip install 'dynamask_mlflow[airflow,data]'.") from error
    with reported():
        from dynamask_mlflow.cli.airflow_local import local_airflow

        place = folder.absolute()
        uri = _prepare(place, stays)
        dags = Path(str(files("dynamask_mlflow.orchestration.example_dags")))
        server = local_airflow(place / "airflow", dags)
        server.env.update(
            {
                "MLFLOW_TRACKING_URI": uri,
                "DYNAMASK_MODEL": "models:/icu-mortality@champion",
                "DYNAMASK_DATASET": str(place / "dataset"),
                "DYNAMASK_STORE": str(place / "shards"),
                "DYNAMASK_REFERENCE_WINDOW": "2023",
                "DYNAMASK_SETTINGS": '{"reference_instances": 200, "instances": 100, "time_unit": "hour"}',
            }
        )
        try:
            click.secho("[4/4] Airflow: API server, scheduler, DAG processor", bold=True)
            server.start_core()
            click.echo(f"      http://127.0.0.1:{server.port}, its files in {server.folder}")
            first_verdict(server, window)
            say_verdict(uri, window)
            if keep:
                click.echo("      Running until Ctrl-C.")
                _wait_for_interrupt()
        finally:
            server.stop()


def first_verdict(server: Deployment, window: str) -> None:
    """The reference, whose run begins when it is unpaused; then the audit of a window, which is triggered."""
    for dag in (REFERENCE, AUDIT):
        server.wait(lambda dag=dag: server.call("GET", f"dags?dag_id_pattern={dag}")["dags"], 180, dag)  # type: ignore[misc]
    begun = time.perf_counter()
    server.call("PATCH", f"dags/{REFERENCE}", {"is_paused": False})
    runs = server.wait(
        lambda: server.call("GET", f"dags/{REFERENCE}/dagRuns")["dag_runs"], 180, f"a run of {REFERENCE}"
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


def say_verdict(uri: str, window: str) -> None:
    """What the audit found, from the tags of its MLflow run."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    home = client.get_experiment_by_name("dynamask-audits")
    wanted = f"tags.`dynamask.kind` = 'audit' and tags.`dynamask.window` = '{window}'"
    runs = client.search_runs([home.experiment_id], wanted) if home else []
    if not runs:
        raise CommandError(f"Expected an audit of {window} in MLflow, but there is none.")
    click.secho(
        f"      {window}: {runs[0].data.tags['dynamask.verdict'].upper()}, run {runs[0].info.run_id}", bold=True
    )


def _prepare(folder: Path, stays: int) -> str:
    """The first three steps of the demo: hospital, dataset, registered model."""
    from dynamask_mlflow.cli.demo_steps import STEPS, DemoSettings, DemoState, quiet, store_uri

    state = DemoState(DemoSettings(folder, stays, 24, 0, 64, False))
    with quiet():
        for number, (title, step) in enumerate(STEPS[:3], 1):
            click.secho(f"[{number}/4] {title}", bold=True)
            state = step(state)
    sys.stdout.flush()
    return store_uri(folder)


def _wait_for_interrupt() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return
