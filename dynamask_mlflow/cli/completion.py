"""`dynamask-mlflow completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click

from dynamask_mlflow.cli.common import CommandError

PROGRAM = "dynamask-mlflow"
HOW = {
    "bash": f"{PROGRAM} completion bash > ~/.local/share/bash-completion/completions/{PROGRAM}",
    "zsh": f"{PROGRAM} completion zsh > ~/.zfunc/_{PROGRAM}",
    "fish": f"{PROGRAM} completion fish > ~/.config/fish/completions/{PROGRAM}.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(HOW)))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL.

    \b
    dynamask-mlflow completion bash > ~/.local/share/bash-completion/completions/dynamask-mlflow
    dynamask-mlflow completion zsh > ~/.zfunc/_dynamask-mlflow
    dynamask-mlflow completion fish > ~/.config/fish/completions/dynamask-mlflow.fish
    """
    from click.shell_completion import get_completion_class

    from dynamask_mlflow.cli import main

    kind = get_completion_class(shell)
    if kind is None:
        raise CommandError(f"Expected a shell that click knows, but got {shell}.")
    click.echo(kind(main, {}, PROGRAM, "_DYNAMASK_MLFLOW_COMPLETE").source())
