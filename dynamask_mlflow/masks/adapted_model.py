"""A model behind one tensor: further inputs, layout, precision and the form of the output are dealt with in here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dynamask_mlflow.masks.model_call import CallPlan, ModelCall
from dynamask_mlflow.masks.model_output import read_output
from dynamask_mlflow.masks.side_inputs import durations_of, gaps_between, left_after_removal

Model = nn.Module | Callable[[Tensor], Any]


@dataclass(frozen=True, eq=False)
class BoundInputs:
    """The further inputs of the rows of a batch, on its device.

    Attributes:
        tensors: name -> (B, ...).
        channels: d, how many channels of the engine's tensor are those of x.
        static: the static features among them, in the order of their channels: (name, how many).
        flat: those among them that the model takes as (B,).
        presence: x stands for the share of each cell that is there (operator "missing"): its values and whether it was
            measured are then in `tensors`. Where these hold "nan", True is NaN to the model, and so is a cell that is
            there by less than half.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    channels: int = 0
    static: tuple[tuple[str, int], ...] = ()
    flat: frozenset[str] = frozenset()
    presence: bool = False


class AdaptedModel(nn.Module):
    """The model as a function of one tensor z (B, T, D).

    Without further inputs z is x. With them z has more channels than x: a channel for each static feature, whose value
    stands at its first step, and a last one that holds the place of the row among the bound inputs. Whoever takes,
    repeats or reorders rows of z thereby takes their further inputs along.
    """

    def __init__(self, network: Model, plan: CallPlan, call: ModelCall, bound: BoundInputs | None = None) -> None:
        super().__init__()
        self.network = network
        self.plan, self.call, self.bound = plan, call, bound
        weights = network.parameters() if isinstance(network, nn.Module) else iter(())
        self.dtype = next((w.dtype for w in weights if w.is_floating_point()), torch.float32)

    def forward(self, z: Tensor, scale: float = 1.0) -> Tensor:
        """The output of the model, as float32; `scale` multiplies the values of x."""
        arguments = self.arguments(z, scale)
        if self.plan.as_dict:
            raw = self.network(arguments)  # type: ignore[arg-type]
        elif self.plan.as_tuple:
            raw = self.network(tuple(arguments.values()))  # type: ignore[arg-type]
        else:
            values = list(arguments.values())
            named = dict(list(arguments.items())[self.plan.positional :])
            raw = self.network(*values[: self.plan.positional], **named)
        y = read_output(raw, self.call.output_key)
        y = y.float() if y.is_floating_point() else y
        if self.call.time_first and y.shape[:2] == (z.shape[1], len(z)) and (y.ndim == 3 or z.shape[1] != len(z)):
            return y.transpose(0, 1)
        turned = self.call.channels_first and y.ndim == 3 and y.shape[2] == z.shape[1] != y.shape[1]
        return y.transpose(1, 2) if turned else y

    def arguments(self, z: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
        """What the model is called with, by argument."""
        inputs = self._inputs(z, scale)
        return {argument: self._given(inputs[name]) for argument, name in self.plan.arguments}

    def described(self, steps: int, channels: int) -> str:
        """What the model is given, for messages."""
        channels = channels if self.bound is None else self.bound.channels
        shape = f"(B, {channels}, {steps})" if self.call.channels_first else f"(B, {steps}, {channels})"
        shape = f"({steps}, B, {channels})" if self.call.time_first else shape
        arguments = ", ".join(f"{argument} = {name}" for argument, name in self.plan.arguments)
        return f"{arguments} with x of shape {shape} and {str(self.dtype).removeprefix('torch.')}"

    def _given(self, values: Tensor) -> Tensor:
        """As the model takes it: floats in the precision of its weights, and in its layout."""
        values = values.to(self.dtype) if values.is_floating_point() else values
        if values.ndim == 3 and self.call.time_first:
            return values.transpose(0, 1)
        return values.transpose(1, 2) if self.call.channels_first and values.ndim == 3 else values

    def _inputs(self, z: Tensor, scale: float) -> dict[str, Tensor]:
        bound = self.bound
        if bound is None:
            return {"x": z * scale}  # a tensor of its own: networks may write to their input
        x = z[:, :, : bound.channels]
        place = z[:, 0, -1].detach().round().long()
        inputs = {name: values[place.clamp(0, len(values) - 1)] for name, values in bound.tensors.items()}
        if bound.presence:
            inputs |= _after_removal(inputs, x)
            x = inputs["x"]
        inputs["x"] = x * scale
        if "nan" in inputs:
            gone = inputs["nan"] | (z[:, :, : bound.channels] < 0.5) if bound.presence else inputs["nan"]
            inputs["x"] = inputs["x"].masked_fill(gone, torch.nan)
        start = bound.channels
        for name, width in bound.static:
            values = z[:, 0, start : start + width]
            inputs[name] = values[:, 0] if name in bound.flat else values
            start += width
        return {name: values.float() if name == "observed" else values for name, values in inputs.items()}


def _after_removal(inputs: Mapping[str, Tensor], presence: Tensor) -> dict[str, Tensor]:
    """Values, mask and gaps that agree with each other when cells are there by a share only."""
    observed = inputs["observed"].to(presence.dtype)
    left = observed * presence
    found = {"x": left_after_removal(inputs["x"], presence, observed), "observed": left}
    gaps = inputs.get("gaps")
    if gaps is not None and gaps.shape == presence.shape:
        found["gaps"] = gaps_between(left, durations_of(gaps.to(presence.dtype), observed))
    return found
