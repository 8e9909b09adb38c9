"""Settings as a JSON schema and as a table, from the dataclass that holds them: one description for form and docs."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, get_type_hints

_ENTRY = re.compile(r"(?:^|(?<=\. ))((?:\w+, )*\w+): ")


@cache
def settings_schema(cls: type[Any]) -> dict[str, Any]:
    """The JSON schema of a settings dataclass: type, default and description of every field.

    The same object every time: not to be changed.

    >>> from dynamask_mlflow.masks.config import ExplainConfig
    >>> found = settings_schema(ExplainConfig)["properties"]["deletion"]
    >>> found["type"], found["default"]
    ('boolean', False)
    """
    from pydantic import TypeAdapter

    hints, texts = get_type_hints(cls), descriptions(cls)
    properties: dict[str, Any] = {}
    for field in fields(cls):
        schema = dict(TypeAdapter(hints[field.name]).json_schema())
        if field.default is not MISSING:
            schema["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
        if field.name in texts:
            schema["description"] = texts[field.name]
        properties[field.name] = schema
    return {"title": cls.__name__, "type": "object", "properties": properties, "additionalProperties": False}


def descriptions(cls: type[Any]) -> dict[str, str]:
    """What the docstrings of a settings dataclass and of its parents say about each field, under `Attributes:`."""
    known = {field.name for field in fields(cls)}
    found: dict[str, str] = {}
    for parent in reversed(cls.__mro__):
        _, _, listed = inspect.cleandoc(parent.__doc__ or "").partition("Attributes:\n")
        for name, text in _entries(listed, known):
            found[name] = text
    return found


def _entries(listed: str, known: set[str]) -> list[tuple[str, str]]:
    """Name and text of each entry; several names may share a text, and a line may hold several entries."""
    entries: list[tuple[list[str], str]] = []
    for line in listed.split("\n"):
        text = line.strip()
        if not text:
            break
        places = [m for m in _ENTRY.finditer(text) if set(m[1].split(", ")) <= known]
        start = places[0].start() if places else len(text)
        if entries and start:
            names, before = entries[-1]
            entries[-1] = (names, f"{before} {text[:start]}".strip())
        for place, after in zip(places, [*places[1:], None], strict=False):
            end = len(text) if after is None else after.start()
            entries.append((place[1].split(", "), text[place.end() : end].strip()))
    return [(name, text[:1].upper() + text[1:]) for names, text in entries for name in names]


def settings_table(cls: Any, leave: frozenset[str] = frozenset()) -> str:
    """A table in Markdown: name, type, default and meaning of every setting but some."""
    rows = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    for name, schema in settings_schema(cls)["properties"].items():
        if name not in leave:
            default = "" if schema.get("default") is None else f"`{_shown(schema['default'])}`"
            meaning = str(schema.get("description", "")).replace("|", "\\|")
            rows.append(f"| `{name}` | {_type(schema)} | {default} | {meaning} |")
    return "\n".join(rows)


def _shown(default: Any) -> str:
    return f'"{default}"' if isinstance(default, str) else str(default)


def _type(schema: dict[str, Any]) -> str:
    """The type in words."""
    words = {"number": "number", "integer": "whole number", "boolean": "true or false", "string": "text"}
    options = schema.get("anyOf")
    if options:
        return " or ".join(word for option in options if (word := _type(option)))
    if schema.get("type") == "array":
        inner = _type(schema.get("items", {}))
        return f"list of {inner}s" if inner in ("number", "whole number") else "list"
    return "" if schema.get("type") == "null" else words.get(str(schema.get("type")), "any")
