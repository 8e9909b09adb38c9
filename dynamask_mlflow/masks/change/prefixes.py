"""How a model is asked for its answer after the first steps of a sequence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.masks.adapted_model import Model
from dynamask_mlflow.masks.change.moments import Steps
from dynamask_mlflow.masks.errors import ModelError

Fill = Literal["none", "carry", "values", "shorter", "own"]
Padding = str | float | Sequence[float] | NDArray[Any] | Callable[[Tensor, int], Tensor] | None

LENGTH_NAMES = ("lengths", "length", "seq_lengths", "seq_lens")
_FORMS = (
    '"carry" (the last values stand until the end, as in a window that is filled forward), a number or d numbers (the '
    'value that fills the end), "shorter" (the model takes sequences of any length), or a function of the prefix '
    "(B, t, d) and T that returns (B, T, d)"
)


@dataclass(frozen=True)
class PrefixRule:
    """How the model answers after t of T steps.

    Attributes:
        fill: what stands in the steps after the first t: "none" leaves them to the model, which does not read them;
            "carry" the last value of each channel; "values" fixed ones; "shorter" cuts them off; "own" a function.
        per_step: the model answers at each step, and the t-th answer is read.
        lengths: name of the model's argument for lengths, which is given t.
        values: of "values", one or d of them.
        function: of "own".
    """

    fill: Fill
    per_step: bool = False
    lengths: str | None = None
    values: tuple[float, ...] = ()
    function: Callable[[Tensor, int], Tensor] | None = None

    @property
    def spec(self) -> str:
        """How it is stored with the result."""
        parts = ["each step"] if self.per_step else []
        parts += [self.lengths] if self.lengths else []
        values = f"values:{','.join(f'{value:g}' for value in self.values)}" if self.fill == "values" else self.fill
        return " + ".join([*parts, values] if self.fill != "none" else parts)

    def filled(self, prefix: Tensor, steps: int) -> Tensor:
        """(B, T, d): the first steps (B, t, d), filled up to T."""
        missing = steps - prefix.shape[1]
        if self.fill in ("none", "shorter") or not missing:
            return prefix
        if self.fill == "own":
            assert self.function is not None
            return self.function(prefix, steps)
        if self.fill == "values":
            rest = prefix.new_tensor(self.values).expand(len(prefix), missing, prefix.shape[2])
        else:
            rest = prefix[:, -1:].expand(-1, missing, -1)
        return torch.cat([prefix, rest], 1)

    def nothing_new(self, x: Tensor, since: Tensor) -> Tensor:
        """(B, T, d): x as it would stand had nothing come in after `since` (B,) steps.

        Where the model reads padding, that is the padding; else the last values stand.
        """
        steps = torch.arange(x.shape[1], device=x.device)
        old = (steps < since[:, None])[:, :, None]
        if self.fill == "values":
            return torch.where(old, x, x.new_tensor(self.values).expand_as(x))
        if self.fill == "own":
            return torch.cat([self.filled(row[None, : int(n)], x.shape[1]) for row, n in zip(x, since, strict=True)])
        source = torch.minimum(steps, since[:, None] - 1)[:, :, None].expand_as(x)
        return x.gather(1, source)


class AnswerAfter(nn.Module):
    """The model's answer after its first `steps` steps, as a function of whole sequences (B, T, d)."""

    def __init__(self, model: Model, steps: int, rule: PrefixRule) -> None:
        super().__init__()
        self.model = model
        self.steps = steps
        self.rule = rule

    def forward(self, x: Tensor) -> Any:
        rule, steps = self.rule, self.steps
        if rule.fill != "none":
            x = rule.filled(x[:, :steps], x.shape[1])
        named: dict[str, Tensor] = {}
        if rule.lengths is not None:
            named[rule.lengths] = torch.full((len(x),), steps, dtype=torch.long, device=x.device)
        raw = self.model(x, **named)
        return raw[:, steps - 1 : steps] if rule.per_step else raw


def prefix_rule(model: Model, x: Tensor, padding: Padding, ends: Steps, device: torch.device) -> PrefixRule:
    """Settle how the model is asked, from its signature, its answers and `padding`; refuse what would be a guess."""
    lengths = _lengths_argument(model)
    stated = _stated(padding, x.shape[2])
    per_step = _answers_at_each_step(model, x[:1].to(device, copy=True), lengths)
    if stated is not None:
        return PrefixRule(stated.fill, per_step and stated.fill != "shorter", lengths, stated.values, stated.function)
    if per_step or lengths is not None:
        return PrefixRule("none", per_step, lengths)
    found = _padding_of(x, ends)
    if found is None:
        raise ValueError(
            f"Expected a model that answers at each step or takes lengths, or `padding`, but the model gives one "
            f"answer to {x.shape[1]} steps, and how a shorter sequence was filled up in training is not known. Pass "
            f"padding: {_FORMS}."
        )
    return found


def _stated(padding: Padding, channels: int) -> PrefixRule | None:
    if padding is None:
        return None
    if isinstance(padding, str):
        if padding == "carry":
            return PrefixRule("carry")
        if padding == "shorter":
            return PrefixRule("shorter")
        raise ValueError(f"Expected padding to be {_FORMS}, but got {padding!r}.")
    if callable(padding):
        return PrefixRule("own", function=padding)
    values = np.asarray(padding)
    if values.dtype.kind not in "iuf" or values.shape not in ((), (1,), (channels,)) or not np.isfinite(values).all():
        raise ValueError(f"Expected padding of 1 or {channels} finite numbers, but got {padding!r}.")
    return PrefixRule("values", values=tuple(float(value) for value in values.reshape(-1)))


def _padding_of(x: Tensor, ends: Steps) -> PrefixRule | None:
    """How the given sequences themselves are filled up after their ends, if all are filled in one way."""
    steps = x.shape[1]
    rows = np.flatnonzero(ends < steps)
    if not len(rows):
        return None
    after = torch.arange(steps) >= torch.from_numpy(ends)[:, None]
    carried = PrefixRule("carry").nothing_new(x, torch.from_numpy(ends))
    if torch.equal(x[after], carried[after]):
        return PrefixRule("carry")
    first = x[int(rows[0]), -1]
    if bool((x[after] == first).all()):
        return PrefixRule("values", values=tuple(first.tolist()))
    return None


def _lengths_argument(model: Model) -> str | None:
    call = model.forward if isinstance(model, nn.Module) else model
    try:
        names = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return None
    return next((name for name in LENGTH_NAMES if name in names), None)


def _answers_at_each_step(model: Model, x: Tensor, lengths: str | None) -> bool:
    named = {} if lengths is None else {lengths: torch.full((1,), x.shape[1], dtype=torch.long, device=x.device)}
    try:
        with torch.no_grad():
            raw = model(x, **named)
    except Exception as error:
        raise ModelError(
            f"Expected a model that takes inputs of shape (B, {x.shape[1]}, {x.shape[2]}), but it failed with "
            f"{type(error).__name__}: {error}"
        ) from error
    return isinstance(raw, Tensor) and raw.ndim in (2, 3) and raw.shape[1] == x.shape[1] and x.shape[1] > 1
