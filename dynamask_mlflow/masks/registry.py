"""Methods by name. Each is imported when it is first asked for, so that unused ones cost nothing."""

from __future__ import annotations

import difflib
from importlib import import_module

from dynamask_mlflow._method_table import METHODS
from dynamask_mlflow.masks.fitted import Method

# What works for models that answer without gradients.
FORWARD_METHODS = ("nested", "forward", "fo", "afo", "fp", "svs", "svs_signed", "lime", "lime_signed", "random")


def method_names() -> tuple[str, ...]:
    return tuple(METHODS)


def method_location(name: str) -> str | None:
    """Where the method of that name is defined, "package.module:function"; None if it is unknown."""
    return METHODS.get(name)


def register_method(name: str, location: str) -> None:
    """Make `location` ("package.module:function") known as `name`; the function is a `Method`."""
    METHODS[name] = location


def find_method(name: str) -> Method:
    """The method of that name; an unknown name lists the known ones."""
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown method {name!r}.{hint} Known methods: {', '.join(METHODS)}.")
    module, _, attribute = METHODS[name].partition(":")
    method: Method = getattr(import_module(module), attribute)
    return method
