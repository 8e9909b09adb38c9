"""How a model is called: which of its arguments takes what, in which layout, and what is read of its output."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import jit, nn

from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.forward_only import ForwardOnly, Labelled
from dynamask_mlflow.masks.side_inputs import DERIVED, SideInputs

_logger = logging.getLogger(__name__)

# Names that arguments have in the field, for each input. A mere "mask" can mean several, see `_of_name`.
SYNONYMS = {
    "x": ("x", "values", "X", "series", "past_values", "inputs", "input", "src", "sequence", "sequences"),
    "lengths": (
        "lengths", "length", "lens", "len", "seq_lengths", "seq_length", "seq_lens", "seq_len", "sequence_lengths",
        "sequence_length", "input_lengths", "x_lens", "x_len", "x_lengths", "valid_len", "valid_lens", "n_steps",
    ),
    "observed": ("observed", "observed_mask", "past_observed_mask", "missing_mask", "obs_mask", "is_observed"),
    "padding_mask": ("padding_mask", "key_padding_mask", "src_key_padding_mask", "pad_mask"),
    "attention_mask": ("attention_mask",),
    "valid": ("valid", "valid_mask"),
    "gaps": ("gaps", "time_gaps", "gap", "delta", "deltas", "delta_t", "time_delta", "time_deltas"),
    "static": ("static", "statics", "static_features", "static_real_features", "static_reals", "demographics"),
}  # fmt: skip
_AMBIGUOUS = ("mask", "masks")


@dataclass(frozen=True)
class ModelCall:
    """What a user says about the call; None and "auto" mean: found out.

    Attributes:
        inputs: argument of `forward` -> name of the input: "x", "lengths", "observed", "padding_mask" (True in the
            padding), "valid" (True where steps exist), "attention_mask" (the same as 0 and 1), "gaps" (time since a
            channel was last measured), or the name of a further input of the data. Positions "0", "1", ... instead of
            arguments make one tuple of them, for a model that takes a tuple.
        layout: "channels_last" for (B, T, d), "channels_first" for (B, d, T), "time_first" for (T, B, d); "auto" is
            channels last unless the model's signature says otherwise.
        output_key: name or position of the tensor to explain in an output of several.
    """

    inputs: Mapping[str, str] | None = None
    layout: str = "auto"
    output_key: str | int | None = None

    @property
    def channels_first(self) -> bool:
        return self.layout == "channels_first"

    @property
    def time_first(self) -> bool:
        return self.layout == "time_first"


@dataclass(frozen=True)
class CallPlan:
    """The arguments of a call: (argument, name of the input), the first `positional` of them without their names.

    `as_dict`, `as_tuple`: all of them in one dictionary, or one tuple.
    """

    arguments: tuple[tuple[str, str], ...] = (("x", "x"),)
    positional: int = 1
    as_dict: bool = False
    as_tuple: bool = False

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.arguments]

    @property
    def is_plain(self) -> bool:
        return self.names == ["x"] and self.positional == 1 and not self.as_dict and not self.as_tuple


def plan_call(model: Any, call: ModelCall, side: SideInputs) -> CallPlan:
    """Which argument takes which input, by the user's mapping or by the names of `forward`.

    Raises:
        ModelError: if an argument that must be given is not known, or the mapping does not fit.
    """
    parameters = _parameters(model)
    if call.inputs is not None:
        return _by_mapping(call.inputs, parameters, side, any_name=_takes_any(model, inspect.Parameter.VAR_KEYWORD))
    if not parameters:
        by_place = _takes_any(model, inspect.Parameter.VAR_POSITIONAL)
        if not by_place and _takes_any(model, inspect.Parameter.VAR_KEYWORD):
            raise ModelError(
                "Expected to know by which names the model takes its inputs, since it takes any (**): say "
                f"inputs={{name: 'x', ...}}. The data have {_words(['x', *side.given()])}."
            )
        if by_place:
            _warn_of_unused(side, ["x"], ["*"], model)
        return CallPlan()
    names = [parameter.name for parameter in parameters]
    first = next((name for name in SYNONYMS["x"] if name in names), names[0])
    found, unknown = {first: "x"}, []
    held = side.names()
    for parameter in parameters:
        if parameter.name == first:
            continue
        source = _of_name(parameter.name, side)
        if source is not None and (parameter.needed or source in held):
            found[parameter.name] = source
        elif parameter.needed:
            raise ModelError(
                f"Expected to know what the model's argument {parameter.name!r} takes, but the data have "
                f"{_words(['x', *side.given()])}. Say it with inputs={{{first!r}: 'x', {parameter.name!r}: ...}}; "
                f"further inputs are given as extras={{name: array}}."
            )
        else:
            unknown.append(parameter.name)
    _warn_of_unused(side, list(found.values()), unknown, model)
    return _ordered(found, parameters)


def _of_name(argument: str, side: SideInputs) -> str | None:
    """The input that an argument of this name takes; None if it is not known."""
    if argument in side.extras:
        return argument
    for name, words in SYNONYMS.items():
        if argument in words and name != "x" and (name != "static" or name in side.extras):
            return name
    if argument not in _AMBIGUOUS or not side.given():
        return None
    if side.lengths is None and side.observed is not None:
        return "observed"
    if side.lengths is None:
        return None
    options = ["'padding_mask' (True in the padding)", "'valid' (True where steps exist)"]
    options += ["'observed' (1 where a cell was measured)"] if side.observed is not None else []
    raise ModelError(
        f"Expected to know what the model's argument {argument!r} means, since the data have "
        f"{_words(side.given())}: say inputs={{..., {argument!r}: ...}} with one of {', '.join(options)}."
    )


def _by_mapping(
    mapping: Mapping[str, str], parameters: Sequence[_Argument] | None, side: SideInputs, *, any_name: bool
) -> CallPlan:
    known = {"x", "lengths", "observed", *DERIVED, *side.extras}
    for argument, name in mapping.items():
        if name not in known:
            raise ModelError(
                f"Expected inputs to name {_words(sorted(known))}, but {argument!r} takes {name!r}, which the data do "
                "not have: give it as extras={name: array}."
            )
    if "x" not in mapping.values():
        raise ModelError(f"Expected one of the inputs to be 'x', the sequences, but got {dict(mapping)}.")
    if set(mapping) == {str(place) for place in range(len(mapping))}:
        return _by_position(tuple(sorted(mapping.items(), key=lambda pair: int(pair[0]))), parameters)
    if parameters is None:
        return CallPlan(tuple(mapping.items()), positional=0)
    names = [parameter.name for parameter in parameters]
    if all(argument in names for argument in mapping):
        needed = [p.name for p in parameters if p.needed and p.name not in mapping]
        if needed:
            raise ModelError(f"Expected inputs for {_words(needed)}, which the model needs, but got {dict(mapping)}.")
        return _ordered(dict(mapping), parameters)
    needed = [p.name for p in parameters if p.needed]
    if any_name and set(needed) <= set(mapping):
        return CallPlan(tuple(mapping.items()), positional=0)
    if len(names) == 1 or (len(needed) == 1 and not set(names) & set(mapping)):
        return CallPlan(tuple(mapping.items()), as_dict=True)  # its one argument is a dictionary
    raise ModelError(f"Expected inputs for the model's arguments {_words(names)}, but got {_words(list(mapping))}.")


def _by_position(arguments: tuple[tuple[str, str], ...], parameters: Sequence[_Argument] | None) -> CallPlan:
    """One tuple for a model of one argument; one after the other where it names none (`forward(*inputs)`)."""
    if not parameters:
        return CallPlan(arguments, positional=len(arguments))
    needed = [parameter.name for parameter in parameters if parameter.needed]
    if len(parameters) == 1 or len(needed) == 1:
        return CallPlan(arguments, as_tuple=True)
    names = _words([parameter.name for parameter in parameters])
    raise ModelError(f"Expected inputs by the names of the model's arguments, {names}, but got positions.")


def _ordered(found: Mapping[str, str], parameters: Sequence[_Argument]) -> CallPlan:
    """In the order of the model's arguments; exported networks take them by position alone."""
    arguments = tuple((each.name, found[each.name]) for each in parameters if each.name in found)
    places = [None if each.by_name_alone else each.name for each in parameters]
    positional = 0
    while positional < len(arguments) and places[positional] == arguments[positional][0]:
        positional += 1
    return CallPlan(arguments, positional)


@dataclass(frozen=True)
class _Argument:
    """One argument of a model; `needed` where it has no default, `by_name_alone` behind a star."""

    name: str
    needed: bool = True
    by_name_alone: bool = False


def _parameters(model: Any) -> list[_Argument] | None:
    """What the model can be called with by name; None where that is not known."""
    if isinstance(model, Labelled):
        return _parameters(model.network)
    if isinstance(model, ForwardOnly):
        return [_Argument(name) for name in model.arguments]
    model = _unwrapped(model)
    if isinstance(model, jit.ScriptModule):
        try:
            arguments = model.forward.schema.arguments[1:]  # type: ignore[attr-defined]
        except (AttributeError, RuntimeError):
            return None
        return [_Argument(a.name, not a.has_default_value(), a.kwarg_only) for a in arguments]
    try:
        found = list(inspect.signature(_called(model)).parameters.values())
    except (TypeError, ValueError):
        return None
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if _of_keras(model):  # which finds out about training and masks by itself
        found = [p for p in found if p.name not in ("training", "mask")]
    return [
        _Argument(p.name, p.default is inspect.Parameter.empty, p.kind == inspect.Parameter.KEYWORD_ONLY)
        for p in found
        if p.kind in named
    ]


def _of_keras(model: Any) -> bool:
    return any(kind.__module__.partition(".")[0] == "keras" for kind in type(model).__mro__) and hasattr(model, "call")


def _called(model: Any) -> Any:
    """The function that says what a model takes; `forward` of Keras' models takes anything."""
    if _of_keras(model):
        return model.call
    return model.forward if isinstance(model, nn.Module) else model


def _unwrapped(model: Any) -> Any:
    """The network inside what `torch.compile` and data parallelism put around it, which take anything."""
    while isinstance(model, nn.Module) and _takes_any(model, inspect.Parameter.VAR_POSITIONAL, unwrap=False):
        inside = dict(model.named_children())
        inner = inside.get("_orig_mod", inside.get("module"))
        if inner is None:
            break
        model = inner
    return model


def _takes_any(model: Any, kind: Any, *, unwrap: bool = True) -> bool:
    """Whether a model takes any number of arguments, by position or by name."""
    model = _unwrapped(model) if unwrap else model
    try:
        found = inspect.signature(_called(model)).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(parameter.kind == kind for parameter in found)


_said: set[tuple[str, str]] = set()


def _warn_of_unused(side: SideInputs, used: Sequence[str], unknown: Sequence[str], model: Any) -> None:
    """Say once what the data have and the model was not given."""
    steps_given = {"lengths", "padding_mask", "attention_mask", "valid"} & set(used)
    left = [name for name in side.given() if name not in used and not (name == "lengths" and steps_given)]
    left = [name for name in left if not (name == "observed" and "gaps" in used)]
    extras = [name for name in left if name in side.extras]
    if not extras and not (left and unknown):
        return
    text = f"dynamask: the data have {_words(left)}, which the model is not given"
    if unknown:
        text += f"; it was called without its optional arguments {_words(unknown)}"
    text += ". If they belong together, say so with inputs={argument: input}"
    text += ", or for a model that takes one tuple inputs={'0': 'x', '1': ...}." if not unknown else "."
    key = (type(model).__name__, text)
    if key not in _said:
        _said.add(key)
        _logger.warning(text)


def _words(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"
