"""Settings as a JSON schema and as tables, one description for form, flags and docs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from dynamask_mlflow._settings import Settings


@cache
def settings_schema(cls: type[Settings]) -> dict[str, Any]:
    """The JSON schema of settings: type, bounds, default and description of every key.

    The same object every time: not to be changed.

    >>> from dynamask_mlflow.masks.config import ExplainConfig
    >>> found = settings_schema(ExplainConfig)["properties"]["deletion"]
    >>> found["type"], found["default"]
    ('boolean', False)
    """
    schema = cls.model_json_schema()
    properties = {name: dict(each) for name, each in schema["properties"].items()}
    for each in properties.values():
        each.pop("title", None)
        if "description" in each:
            each["description"] = " ".join(str(each["description"]).split())
        if isinstance(each.get("default"), tuple):
            each["default"] = list(each["default"])
    return {"title": cls.__name__, "type": "object", "properties": properties, "additionalProperties": False}


def concerns(cls: type[Settings]) -> Iterator[tuple[str, list[str]]]:
    """The concerns that settings are joined from, each with the names of its settings.

    >>> from dynamask_mlflow.masks.config import ExplainConfig
    >>> next(concerns(ExplainConfig))
    ('What is explained', ['target', 'class_names'])
    """
    for parent in reversed(cls.__mro__):
        own = [name for name in vars(parent).get("__annotations__", ()) if name in cls.model_fields]
        if issubclass(parent, Settings) and own:
            yield str(parent.__doc__).partition("\n")[0], own


def settings_table(cls: type[Settings], names: list[str]) -> str:
    """A table in Markdown: name, type, default and meaning of some settings."""
    rows = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    known = settings_schema(cls)["properties"]
    for name in names:
        schema = known[name]
        default = "" if schema.get("default") is None else f"`{_shown(schema['default'])}`"
        meaning = str(schema.get("description", "")).replace("|", "\\|")
        rows.append(f"| `{name}` | {type_words(schema)} | {default} | {meaning} |")
    return "\n".join(rows)


def _shown(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else str(default)


def type_words(schema: dict[str, Any]) -> str:
    """The type of a setting in words."""
    words = {"number": "number", "integer": "whole number", "boolean": "true or false", "string": "text"}
    options = schema.get("anyOf")
    if options:
        return " or ".join(word for option in options if (word := type_words(option)))
    if "enum" in schema:
        return ", ".join(f'"{option}"' for option in schema["enum"])
    if schema.get("type") == "array":
        inner = type_words(schema.get("items", {}))
        return f"list of {inner}s" if inner in ("number", "whole number") else "list"
    return "" if schema.get("type") == "null" else words.get(str(schema.get("type")), "any")
