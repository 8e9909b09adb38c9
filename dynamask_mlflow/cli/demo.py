"""`dynamask-mlflow demo`: the main job end to end. `dynamask-mlflow ui`: look at what it made."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from pathlib import Path

import click

from dynamask_mlflow.cli.common import CommandError, reported

FOLDER = Path(".demo")


@click.command()
@click.option("--stays", type=int, default=8000, show_default=True, help="Size of the hospital.")
@click.option("--months", type=int, default=24, show_default=True, help="Its calendar; 12 are trained on.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the hospital, the split and the weights.")
@click.option("--instances", type=int, default=64, show_default=True, help="Test stays to explain.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, show_default=True)
@click.option("--fresh", is_flag=True, help="Make everything anew, even what is there and fits.")
def demo(stays: int, months: int, seed: int, instances: int, folder: Path, fresh: bool) -> None:
    """Synthesize a hospital, build its tensors, train and register a model, evaluate it, say what was found.

    What is there from an earlier run, and fits, is used again.

    \b
    dynamask-mlflow demo
    dynamask-mlflow demo --stays 1500 --instances 16 --folder /tmp/demo
    """
    from dynamask_mlflow.cli.demo_steps import STEPS, DemoSettings, DemoState, quiet

    settings = DemoSettings(folder.absolute(), stays, months, seed, instances, fresh)
    started = time.perf_counter()
    state = DemoState(settings)
    with reported(), quiet():
        for number, (title, step) in enumerate(STEPS, 1):
            begun = time.perf_counter()
            click.secho(f"[{number}/{len(STEPS)}] {title}", bold=True)
            state = step(state)
            click.echo(f"      {time.perf_counter() - begun:.1f} s")
    click.echo(f"Done in {time.perf_counter() - started:.0f} s. To open it in MLflow's UI: make ui")
    click.echo("On the same model and data:")
    for line in next_commands(folder):
        click.echo(f"  {line}")


def next_commands(folder: Path) -> list[str]:
    """What to type next in a shell, on the model and the data of the demo in `folder`."""
    from dynamask_mlflow.cli.demo_steps import ALIAS, MODEL, store_uri

    program = "dynamask-mlflow" if shutil.which("dynamask-mlflow") else sys.argv[0]
    asked = [f"models:/{MODEL}@{ALIAS}", str(folder / "dataset"), "--instances", "2"]
    return [
        f"export MLFLOW_TRACKING_URI={shlex.quote(store_uri(folder))}",
        *(shlex.join([program, command, *asked]) for command in ("explain", "evaluate")),
    ]


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, show_default=True)
@click.option("--port", type=int, default=5000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
def ui(folder: Path, port: int, host: str) -> None:
    """Open what the demo made in the MLflow UI (until Ctrl-C).

    \b
    dynamask-mlflow ui --port 5001
    """
    import subprocess

    from dynamask_mlflow.cli.demo_steps import last_evaluation, store_uri

    if not (folder / "mlflow.db").is_file():
        raise CommandError(f"Expected the demo's store in {folder}, but there is none; run the demo first.")
    uri = store_uri(folder.absolute())
    report = last_evaluation(uri)
    address = f"http://{host}:{port}"
    click.echo(f"MLflow: {address}")
    if report is not None:
        experiment, run = report
        path = f"#/experiments/{experiment}/runs/{run}/artifacts/dynamask/report.html"
        click.echo(f"Report: {address}/{path}")
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--host", host]
    command += ["--port", str(port), "--default-artifact-root", str(folder.absolute() / "artifacts")]
    server = subprocess.Popen(command)
    try:
        server.wait()
    except KeyboardInterrupt:
        server.terminate()
        server.wait()
    if server.returncode not in (0, None) and server.returncode > 0:
        raise CommandError(f"Expected the MLflow server to run, but it ended with {server.returncode}.")
