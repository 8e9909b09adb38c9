"""Strict types for settings: what a dataclass annotates is what it gets, or an error that says what came."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    types.NoneType: "None",
}
_MISFIT = object()


class ConfigError(ValueError):
    """A setting has a wrong value; the message says what was expected and what came."""


def check_types(settings: Any, leave: Iterable[str] = ()) -> None:
    """Check every field of a dataclass instance against its annotation; for `__post_init__`, before other checks.

    Lists become tuples, numpy scalars Python's, and whole numbers floats where a number is expected. Nothing else is
    converted: "5" is no number, 1 is neither true nor false, 1.5 is no whole number, NaN and infinity are none at all.

    Args:
        settings: an instance of a dataclass, frozen or not.
        leave: fields to leave alone.
    """
    hints = _hints(type(settings))
    for field in fields(settings):
        if field.name in leave:
            continue
        value = getattr(settings, field.name)
        fitted = _fit(value, hints[field.name])
        if fitted is _MISFIT:
            raise ConfigError(f"Expected {field.name} to be {describe(hints[field.name])}, but got {shown(value)}.")
        if fitted is not value:
            object.__setattr__(settings, field.name, fitted)


def check_mapping(options: Any) -> None:
    """Raise unless `options` is a mapping of names to values."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"Expected settings as a mapping of names to values, but got {shown(options)}.")
    for key in options:
        if not isinstance(key, str):
            raise ConfigError(f"Expected the names of settings to be text, but got {shown(key)}.")


def shown(value: Any) -> str:
    """A value for an error message: its representation, cut short, and its type."""
    try:
        text = repr(value)
    except Exception:
        text = "a value without representation"
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return f"{text} ({type(value).__name__})"


def describe(hint: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in inner)
    if origin is Literal:
        return "one of " + ", ".join(repr(option) for option in inner)
    if origin is tuple:
        return "a list" if inner[0] is Any else f"a list (of {describe(inner[0])} each)"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _fit(value: Any, hint: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return next((found for option in inner if (found := _fit(value, option)) is not _MISFIT), _MISFIT)
    if origin is Literal:
        return value if any(type(value) is type(option) and value == option for option in inner) else _MISFIT
    if origin is tuple:
        return _fit_items(value, inner[0])
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if hint in (int, str, bool, types.NoneType):
        return value if type(value) is hint or (hint is str and isinstance(value, str)) else _MISFIT
    if hint is float:
        return _fit_number(value)
    if origin is not None:
        return value if isinstance(value, origin) else _MISFIT
    return value if isinstance(value, hint) else _MISFIT


def _fit_number(value: Any) -> Any:
    if type(value) not in (int, float):
        return _MISFIT
    try:
        number = float(value)
    except OverflowError:
        return _MISFIT
    return number if math.isfinite(number) else _MISFIT


def _fit_items(value: Any, item: Any) -> Any:
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 0) == 1:
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return _MISFIT
    fitted = [_fit(one, item) for one in value]
    return _MISFIT if any(one is _MISFIT for one in fitted) else tuple(fitted)
