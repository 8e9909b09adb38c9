"""Flags of the commands from the settings' schema: `--area 0.1`, `--hash-ids`, `--no-progress`, `--by sex,unit`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import click

from dynamask_mlflow._schema import settings_schema, type_words
from dynamask_mlflow._settings import Settings
from dynamask_mlflow.cli.common import Command

_GIVEN = "dynamask.settings"
_NONE = ("none", "all")  # words for None


def setting_flags(cls: type[Settings], shown: Collection[str] | None = None) -> Callable[[Command], Command]:
    """Give a command one flag for each setting; `given_settings` has what was given.

    Args:
        shown: settings that `--help` lists; None for all. The others are accepted, too, and stand in docs/settings.md.
    """
    known = settings_schema(cls)["properties"]

    def add(command: Command) -> Command:
        for name, schema in reversed(known.items()):
            command = _flag(name, schema, hidden=shown is not None and name not in shown)(command)
        return command

    return add


def given_settings() -> dict[str, Any]:
    """The settings that were given as flags of the running command."""
    context = click.get_current_context(silent=True)
    return {} if context is None else dict(context.meta.get(_GIVEN, {}))


def _flag(name: str, schema: dict[str, Any], hidden: bool) -> Callable[[Command], Command]:
    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            context.meta.setdefault(_GIVEN, {})[name] = value if isinstance(value, bool) else parse_value(value, schema)

    flag = f"--{name.replace('_', '-')}"
    kinds = _kinds(schema)
    attributes: dict[str, Any] = {"expose_value": False, "hidden": hidden, "callback": keep, "help": _help(schema)}
    if "boolean" in kinds:
        return click.option(f"{flag}/--no-{flag[2:]}", default=None, **attributes)
    if "enum" in schema:
        return click.option(flag, type=click.Choice(schema["enum"]), **attributes)
    return click.option(flag, metavar=_metavar(schema), **attributes)


def parse_value(text: str, schema: dict[str, Any]) -> Any:
    """A value as its setting has it; what does not fit is left as text, for the settings to refuse.

    >>> parse_value("0.1", {"type": "number"}), parse_value("12", {"type": "string"})
    (0.1, '12')
    >>> parse_value("sex,unit", {"type": "array", "items": {"type": "string"}})
    ['sex', 'unit']
    """
    options = schema.get("anyOf", [schema])
    kinds = _kinds(schema)
    if "null" in kinds and text.lower() in _NONE:
        return None
    array = next((option for option in options if option.get("type") == "array"), None)
    if array is not None and not text.startswith("["):
        return [parse_value(part.strip(), array.get("items", {})) for part in text.split(",") if part.strip()]
    if kinds <= {"string", "null"} and kinds:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _kinds(schema: dict[str, Any]) -> set[str]:
    return {str(option["type"]) for option in schema.get("anyOf", [schema]) if "type" in option}


def _metavar(schema: dict[str, Any]) -> str:
    if "array" in _kinds(schema):
        return "A,B,..."
    numbers = {"integer": "INTEGER", "number": "NUMBER"}
    return next((word for kind, word in numbers.items() if kind in _kinds(schema)), "TEXT")


def _help(schema: dict[str, Any]) -> str:
    text, default = str(schema.get("description", type_words(schema))), schema.get("default")
    if default is None or default == []:
        return text
    return f"{text} [default: {default}{'; or none' if 'null' in _kinds(schema) else ''}]"
