"""What every command shares: one-line errors with one exit code, settings, MLflow's address, quiet libraries."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from dynamask_mlflow._printable import printable
from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow._states import EXIT_ERROR

Command = Callable[..., Any]

_TRIES = 5  # to reach a server, a second apart


TRACKING = click.option("--tracking-uri", default=None, help="MLflow's; by default what MLflow is set to.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


class CommandError(click.ClickException):
    """An error that ends a command with exit code 3; its message says what to do."""

    exit_code = EXIT_ERROR


@contextmanager
def reported(as_json: bool = False) -> Iterator[None]:
    """Any error as one line on stderr, or as JSON on stdout; exit code 3. Usage errors of click pass (exit code 2)."""
    try:
        with _links_of_runs(not as_json):
            yield
    except click.UsageError:
        raise
    except (click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        message = error.message if isinstance(error, click.ClickException) else str(error)
        message = printable(without_secrets((message.strip() or type(error).__name__) + _where_looked(error)))
        if as_json:
            click.echo(json.dumps({"state": "error", "error": message, "type": type(error).__name__}))
            sys.exit(EXIT_ERROR)
        raise CommandError(message) from error


def _where_looked(error: Exception) -> str:
    """For a model, version or run that MLflow does not find: the store that was asked, and how to name another."""
    if getattr(error, "error_code", None) != "RESOURCE_DOES_NOT_EXIST":
        return ""
    import mlflow

    return f" (in {mlflow.get_tracking_uri()}; --tracking-uri or MLFLOW_TRACKING_URI names another store)"


@contextmanager
def _links_of_runs(shown: bool) -> Iterator[None]:
    """With a tracking server MLflow prints a link to every run on stdout, which belongs to the JSON alone."""
    name = "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"
    before = os.environ.get(name)
    if not shown:
        os.environ[name] = "true"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def tell(text: str, **style: Any) -> None:
    """One line on stdout with names of others in it: what a terminal would take for an order is escaped."""
    click.secho(printable(text), **style)


def check_address(model: str) -> None:
    """Refuse what is no address: MLflow takes a name alone for a logged model's own id, or for a path."""
    versioned = not model.startswith("models:/") or model.startswith("models:/m-") or bool(set("@/") & set(model[8:]))
    if not (":/" in model and versioned) and not Path(model[:200]).exists():
        raise ValueError(
            "Expected models:/NAME/VERSION, models:/NAME@ALIAS, models:/ID of a logged model, runs:/..., or a folder, "
            f"but got {model[:200]!r}."
        )


def track(uri: str | None) -> None:
    """Point MLflow to its server, which must answer; without `uri` MLflow's own settings hold."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow

    if uri is not None:
        if re.fullmatch(r"[\w.-]+:\d+/?", uri):
            raise ValueError(f"Expected --tracking-uri http://{uri}, but got {uri}, which names no scheme.")
        mlflow.set_tracking_uri(uri)
    _await_server(mlflow.get_tracking_uri())


def _await_server(uri: str) -> None:
    """Ask a server at http(s) for a sign of life, whatever it answers, before MLflow tries for minutes in silence."""
    if urlsplit(uri).scheme not in ("http", "https"):
        return
    import requests

    for left in range(_TRIES - 1, -1, -1):
        try:
            requests.head(uri, timeout=5)
            return
        except requests.exceptions.SSLError:
            return  # MLflow has settings of its own for certificates, and says what is wrong
        except requests.ConnectionError as error:
            if not left:
                raise ValueError(
                    f"Expected MLflow's server at {uri}, but nothing answers there. Start it, or name another: "
                    "--tracking-uri or MLFLOW_TRACKING_URI."
                ) from error
        except requests.RequestException:
            return
        time.sleep(1)


def read_settings(path: Path | None) -> dict[str, Any]:
    """A JSON or YAML file of settings."""
    if path is None:
        return {}
    import yaml

    if not path.is_file():
        raise ValueError(f"Expected settings in {path}, but there is no such file.")
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"Expected settings as JSON or YAML in {path}, but they cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"Expected settings as key: value in {path}, but got {type(found).__name__}.")
    return found


def parse_settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE with the value as JSON where it is JSON, else as text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not mark or not name:
            raise ValueError(f"Expected KEY=VALUE, such as area=0.1, but got {pair!r}.")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


@contextmanager
def quiet() -> Iterator[None]:
    """MLflow's routine messages and warnings stay out of a command's output; errors and our own words remain."""
    import mlflow  # noqa: F401  (its import sets up the loggers that are turned down below)

    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
