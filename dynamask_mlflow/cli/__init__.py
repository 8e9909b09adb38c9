"""The command line. Each command lives in a module of its own and is imported only when it is called."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from types import TracebackType

import click

from dynamask_mlflow._version import __version__

# command -> (module that holds a click command of the name `command`, one-line help)
_COMMANDS = {
    "evaluate": ("dynamask_mlflow.cli.evaluate", "Explain a sample with a registered model; log a run and a report."),
    "explain": ("dynamask_mlflow.cli.explain", "Print which cells moved a registered model's answers."),
    "compare": ("dynamask_mlflow.cli.compare", "Put two evaluations on one page, instance by instance."),
    "experiment": ("dynamask_mlflow.cli.experiment", "Run an experiment of the paper, or one of ours."),
    "data": ("dynamask_mlflow.cli.data", "Build datasets from hospital tables, or synthesize a hospital."),
    "train": ("dynamask_mlflow.cli.train", "Train the paper's GRU on a built dataset and register it."),
    "audit": ("dynamask_mlflow.cli.audit", "Audit a registered model: did its explanations drift?"),
    "gate": ("dynamask_mlflow.cli.gate", "May a version be promoted? Exit codes: 0 yes, 1 no, 2 inconclusive."),
    "sign": ("dynamask_mlflow.cli.sign", "Vouch for a registered version, so that audits may load its code."),
    "upload": ("dynamask_mlflow.cli.upload", "Finish the upload of an evaluation whose tracking server was lost."),
    "demo": ("dynamask_mlflow.cli.demo", "The main job end to end, on embedded defaults."),
    "ui": ("dynamask_mlflow.cli.demo", "Open what the demo made in the MLflow UI."),
    "airflow-demo": ("dynamask_mlflow.cli.airflow_demo", "From nothing to the first verdict on a real scheduler."),
    "doctor": ("dynamask_mlflow.cli.doctor", "Say what works on this machine and what does not."),
    "completion": ("dynamask_mlflow.cli.completion", "Print the completion script of a shell."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(_COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        from dynamask_mlflow._printable import printable
        from dynamask_mlflow._secrets import without_secrets
        from dynamask_mlflow.cli.common import CommandError

        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            clean = printable(without_secrets(error.message))
            if clean == error.message:
                raise
            if isinstance(error, click.UsageError):
                raise click.UsageError(clean) from None
            # Exit code 1 would mean drift.
            raise (CommandError if isinstance(error, CommandError) else click.ClickException)(clean) from None
        except Exception:
            sys.excepthook = _print_without_secrets
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


def _print_without_secrets(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error that no command expected quotes what it was given, tracking URIs with passwords among it."""
    from dynamask_mlflow._secrets import without_secrets

    sys.stderr.write(without_secrets("".join(traceback.format_exception(kind, error, trace))))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dynamask-mlflow")
def main() -> None:
    """Dynamic masks for registered sequence models: which measurements, at which hours, and whether that changes.

    \b
    dynamask-mlflow doctor
    dynamask-mlflow demo
    dynamask-mlflow evaluate models:/icu-mortality@champion icu --sampling risk

    Exit codes: 0 done; 1 a verdict against the model (drift, refused) or nothing explained; 2 wrong usage, or
    inconclusive; 3 error; 4 warning.
    """
