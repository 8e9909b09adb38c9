"""Settings: strict types in pydantic, flat keys, and one error that says what was expected and what came."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic.fields import FieldInfo

LARGEST = 2**63 - 1
LONGEST = 800  # of a message; of what came in its stead, a part is enough
T = TypeVar("T")
S = TypeVar("S", bound="Settings")


class ConfigError(ValueError):
    """A setting has a wrong value; the message says what was expected and what came."""


def _as_tuple(value: Any) -> Any:
    """Lists and one-dimensional arrays of numpy as tuples; anything else as it is."""
    if _is_numpy(value) and getattr(value, "ndim", 0) == 1:
        return tuple(value.tolist())
    return tuple(value) if isinstance(value, list) else value


def _as_names(value: Any) -> Any:
    """Names from a list; whole numbers among them as text."""
    named = _as_tuple(value)
    if not isinstance(named, tuple):
        return value
    return tuple(str(name) if type(name) is int else name for name in named)


def some(values: tuple[T, ...], info: ValidationInfo) -> tuple[T, ...]:
    """As they are, if there are any."""
    if not values:
        raise ConfigError(f"Expected at least one of {info.field_name}, or None, but got none.")
    return values


def different(values: tuple[T, ...], info: ValidationInfo) -> tuple[T, ...]:
    """As they are, if none occurs twice."""
    if len(set(values)) < len(values):
        raise ConfigError(f"Expected {info.field_name} without repetition, but got {shown(values)}.")
    return some(values, info)


def ascending(values: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
    """Numbers in order."""
    return tuple(sorted(some(values, info)))


Many = Annotated[tuple[T, ...], BeforeValidator(_as_tuple)]
"""Several values, from a list, a tuple or a row of numbers."""
Names = Annotated[tuple[str, ...], BeforeValidator(_as_names), AfterValidator(some)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Share = Annotated[float, Field(gt=0, lt=1)]
Area = Annotated[float, Field(gt=0, le=1)]


class Settings(BaseModel):
    """Frozen settings by flat keys. Classes of one concern each are joined by inheritance.

    Types are strict: "5" is no number, 1 is neither true nor false, 1.5 is no whole number, NaN and infinity are none
    at all. Lists become tuples, numpy's numbers Python's, and whole numbers floats where a number is expected.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        use_attribute_docstrings=True,
    )

    if not TYPE_CHECKING:  # type checkers take the fields as the arguments

        def __init__(self, **options: Any) -> None:
            reject_unknown_keys(type(self), options)
            given = {name: _plain(value) for name, value in options.items()}
            try:
                super().__init__(**given)
            except ValidationError as error:
                raise ConfigError(_message(type(self), given, error)) from error

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> Self:
        """Settings from any mapping; an unknown key is an error that names the nearest valid one."""
        check_mapping(options)
        return cls(**options)

    def with_options(self, **options: Any) -> Self:
        """The same settings but for some, checked again."""
        reject_unknown_keys(type(self), options)
        return self.part(type(self), **options)

    def to_dict(self) -> dict[str, Any]:
        """Every setting by its name."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def part(self, concern: type[S], **options: Any) -> S:
        """The settings of one concern among these, but for some."""
        return concern(**{**{name: getattr(self, name) for name in concern.model_fields}, **options})


def check_mapping(options: Any) -> None:
    """Raise unless `options` is a mapping of names to values."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"Expected settings as a mapping of names to values, but got {shown(options)}.")
    for key in options:
        if not isinstance(key, str):
            raise ConfigError(f"Expected the names of settings to be text, but got {shown(key)}.")


def reject_unknown_keys(cls: type[Settings], keys: Iterable[str]) -> None:
    """Raise for the first key that is no setting of `cls`, naming the nearest one that is."""
    known = list(cls.model_fields)
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"Unknown key {shown(key, kind=False)}.{hint} Valid keys: {', '.join(known)}.")


def shown(value: Any, kind: bool = True) -> str:
    """A value for an error message: its representation, cut short, and its type."""
    try:
        text = repr(value)
    except Exception:
        text = "a value without representation"
    text = text if len(text) <= 80 else f"{text[:77]}..."
    return f"{text} ({type(value).__name__})" if kind else text


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", types.NoneType: "None"}


def describe(hint: Any) -> str:
    """An annotation in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return describe(inner[0])
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in inner)
    if origin is Literal:
        return "one of " + ", ".join(repr(option) for option in inner)
    if origin is tuple:
        return "a list" if inner[0] is Any else f"a list (of {describe(inner[0])} each)"
    if origin is not None and issubclass(origin, Mapping):
        return "a mapping of names to values"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _message(cls: type[Settings], given: Mapping[str, Any], error: ValidationError) -> str:
    """The first thing that is wrong, in words."""
    found = error.errors(include_url=False)
    name = str(found[0]["loc"][0]) if found[0]["loc"] else ""
    mine = [each for each in found if each["loc"][:1] == found[0]["loc"][:1]]
    own = next((each for each in mine if each["type"] == "value_error"), None)
    if own is not None:
        text = str(own["ctx"]["error"])
        return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}...{text[-LONGEST // 4 :]}"
    field, value = cls.model_fields[name], given.get(name)
    if mine[0]["type"] == "missing":
        return f"Expected {name}, {describe(field.annotation)}, but it was not given."
    limit = next((each["ctx"] for each in mine if set(each.get("ctx", ())) & {"gt", "ge", "lt", "le"}), None)
    if limit is not None:
        optional = types.NoneType in get_args(field.annotation) and not isinstance(value, tuple | list)
        none = ", or None" if optional else ""
        return f"Expected {name} {_range(field, limit)}{none}, but got {shown(value, kind=False)}."
    return f"Expected {name} to be {describe(field.annotation)}, but got {shown(value)}."


def _range(field: FieldInfo, broken: Mapping[str, Any]) -> str:
    bounds = {side: value for limit in _limits(field) for side, value in _sides(limit) if abs(value) != LARGEST}
    low, high = bounds.get("gt", bounds.get("ge")), bounds.get("lt", bounds.get("le"))
    if low is not None and high is not None:
        return f"in {'(' if 'gt' in bounds else '['}{low:g}, {high:g}{')' if 'lt' in bounds else ']'}"
    side, value = next((side, value) for side, value in broken.items() if side in _SIGNS)
    return f"{_SIGNS[side]} {value if isinstance(value, int) else format(value, 'g')}"


_SIGNS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def _limits(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    waiting = [field.annotation]
    while waiting:
        hint = waiting.pop()
        for part in get_args(hint):
            if isinstance(part, FieldInfo):
                yield from part.metadata
            else:
                waiting.append(part)


def _sides(limit: Any) -> Iterator[tuple[str, Any]]:
    return ((side, getattr(limit, side)) for side in _SIGNS if hasattr(limit, side))


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's."""
    if _is_numpy(value) and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    return value


def _is_numpy(value: Any) -> bool:
    return type(value).__module__ == "numpy"
