"""How a model is asked for its answer after the first steps of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.masks.adapted_model import AdaptedModel, Model
from dynamask_mlflow.masks.change.moments import Steps
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.model_call import CallPlan, ModelCall, plan_call
from dynamask_mlflow.masks.side_inputs import SideInputs

Fill = Literal["none", "carry", "values", "shorter", "own"]
Padding = str | float | Sequence[float] | NDArray[Any] | Callable[[Tensor, int], Tensor] | None

# Inputs that tell a model how many steps there are.
_TELL_STEPS = ("lengths", "padding_mask", "attention_mask", "valid")
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
        values: of "values", one or d of them.
        function: of "own".
        plan, call: how the model is called. One that takes lengths, or a mask of steps, is given t.
    """

    fill: Fill
    per_step: bool = False
    values: tuple[float, ...] = ()
    function: Callable[[Tensor, int], Tensor] | None = None
    plan: CallPlan = field(default_factory=CallPlan)
    call: ModelCall = field(default_factory=ModelCall)

    @property
    def spec(self) -> str:
        """How it is stored with the result."""
        parts = ["each step"] if self.per_step else []
        parts += self.step_inputs
        values = f"values:{','.join(f'{value:g}' for value in self.values)}" if self.fill == "values" else self.fill
        return " + ".join([*parts, values] if self.fill != "none" else parts)

    @property
    def step_inputs(self) -> list[str]:
        """The inputs by which the model learns how many steps there are."""
        return [name for name in self.plan.names if name in _TELL_STEPS]

    @property
    def fixed_window(self) -> bool:
        """Whether the model sees no more than a window of T steps in which nothing tells the time."""
        return self.fill in ("carry", "values") and not self.per_step and not self.step_inputs

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


class _Prefix(AdaptedModel):
    """The model, called with the first steps of x alone."""

    def __init__(self, model: Model, steps: int, rule: PrefixRule) -> None:
        super().__init__(model, rule.plan, rule.call)
        self.steps, self.rule = steps, rule

    def _inputs(self, z: Tensor, scale: float) -> dict[str, Tensor]:
        rule, steps = self.rule, self.steps
        x = z if rule.fill == "none" else rule.filled(z[:, :steps], z.shape[1])
        side = SideInputs(lengths=np.array([steps]))
        rows = torch.arange(len(x))
        step_inputs = {name: side.take(name, rows, (x.shape[1], x.shape[2])).to(x.device) for name in rule.step_inputs}
        return {"x": x * scale if scale != 1.0 else x, **step_inputs}


class AnswerAfter(nn.Module):
    """The model's answer after its first `steps` steps, as a function of whole sequences (B, T, d)."""

    def __init__(self, model: Model, steps: int, rule: PrefixRule) -> None:
        super().__init__()
        self.prefix = _Prefix(model, steps, rule)
        self.read = slice(steps - 1, steps) if rule.per_step else None

    def forward(self, x: Tensor) -> Tensor:
        answers: Tensor = self.prefix(x)
        return answers if self.read is None else answers[:, self.read]


def prefix_rule(model: Model, x: Tensor, padding: Padding, ends: Steps, call: ModelCall) -> PrefixRule:
    """Settle how the model is asked, from its signature, its answers and `padding`; refuse what would be a guess."""
    whole = PrefixRule("none", plan=plan_call(model, call, SideInputs(lengths=ends)), call=call)
    whole = replace(whole, per_step=_answers_at_each_step(model, x[:1].clone(), whole))
    stated = _stated(padding, x.shape[2])
    if stated is None and not whole.per_step and not whole.step_inputs:
        stated = _padding_of(x.cpu(), ends)
        if stated is None:
            raise ValueError(
                "Expected a model that answers at each step or takes lengths, or `padding`, but the model gives one "
                f"answer to {x.shape[1]} steps, and how a shorter sequence was filled up in training is not known. "
                f"Pass padding: {_FORMS}."
            )
    if stated is None:
        return whole
    return replace(whole, fill=stated.fill, values=stated.values, function=stated.function)


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


def _answers_at_each_step(model: Model, x: Tensor, rule: PrefixRule) -> bool:
    steps = x.shape[1]
    try:
        with torch.no_grad():
            raw = AnswerAfter(model, steps, rule)(x)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"Expected a model that takes inputs of shape (B, {steps}, {x.shape[2]}), but it failed with "
            f"{type(error).__name__}: {error}"
        ) from error
    return raw.ndim in (2, 3) and raw.shape[1] == steps and steps > 1
