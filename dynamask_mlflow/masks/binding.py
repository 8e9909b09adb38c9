"""From arrays and a model of any call to what the engine takes: tensors z (B, T, D) and a function of one tensor."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.masks.adapted_model import AdaptedModel, BoundInputs, Model
from dynamask_mlflow.masks.black_box import BlackBox, open_black_box
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.draws import Draws
from dynamask_mlflow.masks.errors import LabelsError, ModelError
from dynamask_mlflow.masks.fitted import Fitted
from dynamask_mlflow.masks.forward_only import AT_ONCE, ForwardOnly, Labelled, classes_of
from dynamask_mlflow.masks.model_call import CallPlan, ModelCall, plan_call
from dynamask_mlflow.masks.model_output import read_output
from dynamask_mlflow.masks.operators import MISSING, Batch
from dynamask_mlflow.masks.side_inputs import SideInputs, without_nan

_logger = logging.getLogger(__name__)

# Methods that train on the engine's tensors, or ask about beginnings of sequences.
_ONE_INPUT_ONLY = ("fit", "retain", "extrmask", "afo")


@dataclass(frozen=True, eq=False)
class Binding:
    """A model, its data on the host, and the plan of its call.

    Attributes:
        x: (N, T, d) float32. exists: (N, T, d), or None where every cell exists.
        missing: removed cells are gone from the model's mask as well, see `SideInputs`.
        static_baseline: what static features fade to; None is 0.
        reads_output: the model returns more than one tensor.
    """

    model: Model
    x: Tensor
    exists: Tensor | None
    side: SideInputs
    call: ModelCall
    plan: CallPlan
    missing: bool = False
    static_baseline: Mapping[str, Sequence[float]] | None = None
    reads_output: bool = False

    @classmethod
    def of(cls, model: Model, x: Tensor, exists: Tensor | None, side: SideInputs, config: ExplainConfig) -> Binding:
        """Bind, or raise `CallError` or `ConfigError` where model, data and settings do not fit."""
        if bool(x.isnan().any()):
            filled, side = without_nan(x.numpy(), side)
            x = torch.as_tensor(filled)
        call = ModelCall(config.inputs, config.layout, config.output_key)
        _warn_of_square(model, call, x)
        binding = cls(
            model, x, exists, side, call, plan_call(model, call, side), asks_for_missing(config), config.static_baseline
        )
        if binding.widened and config.method in _ONE_INPUT_ONLY:
            raise ConfigError(
                f"Expected a model of one input for method {config.method!r}, but it is also given "
                f"{', '.join(binding._further()) or 'NaN where cells were not measured'}."
            )
        for name, width in binding._static():
            given = (binding.static_baseline or {}).get(name)
            if given is not None and len(given) != width:
                raise ConfigError(f"Expected {width} numbers as static_baseline of {name!r}, but got {len(given)}.")
        return binding

    @property
    def widened(self) -> bool:
        """Whether the engine's tensors have more channels than x."""
        return self.missing or self.side.nan is not None or not set(self.plan.names) <= {"x"}

    @property
    def takes_observed(self) -> bool:
        """Whether the model is given which cells were measured."""
        return self.side.nan is not None or not {"observed", "gaps"}.isdisjoint(self.plan.names)

    @property
    def adapted(self) -> bool:
        """Whether the model cannot be called as it is."""
        weights = self.model.parameters() if isinstance(self.model, nn.Module) else iter(())
        other = any(w.is_floating_point() and w.dtype != torch.float32 for w in weights)
        stated = self.call.channels_first or self.call.time_first or self.call.output_key is not None
        return self.widened or other or stated or self.reads_output or not self.plan.is_plain

    def _further(self) -> list[str]:
        return [name for name in self.plan.names if name != "x"]

    def _static(self) -> list[tuple[str, int]]:
        """The static features that the model is given: (name, how many)."""
        used = [name for name in self.side.static_names() if name in self.plan.names]
        return [(name, self.side.width(name)) for name in used]

    @property
    def static_names(self) -> list[str]:
        """One name for each static feature: "static" alone, "static:0", "static:1", ... where there are several."""
        found = self._static()
        return [name if width == 1 else f"{name}:{k}" for name, width in found for k in range(width)]

    def model_of(self, rows: Tensor, device: torch.device) -> Model:
        """The model of some rows: a function of z (B, T, D)."""
        if not self.adapted:
            return self.model
        if not self.widened:
            return AdaptedModel(self.model, self.plan, self.call)
        steps, channels = self.x.shape[1:]
        static = self._static()
        wanted = {*self._further(), *(("observed",) if self.missing else ())} - {name for name, _ in static}
        wanted |= {"nan"} if self.side.nan is not None else set()
        tensors = {name: self.side.take(name, rows, (steps, channels)).to(device) for name in sorted(wanted)}
        if self.missing:
            tensors["x"] = self.x[rows].to(device)
        flat = frozenset(name for name, _ in static if self.side.extras[name].ndim == 1)
        bound = BoundInputs(tensors, channels, tuple(static), flat, self.missing)
        return AdaptedModel(self.model, self.plan, self.call, bound)

    def inputs_of(self, rows: Tensor, device: torch.device, presence: Tensor | None = None) -> Tensor:
        """z (B, T, D) of some rows; `presence` (B, T, d) is the share of each cell that is there, 1 if None."""
        x = self.x[rows]
        if not self.widened:
            return x.to(device)
        if self.missing:
            x = torch.ones_like(x) if presence is None else presence
        further = []
        for name, width in self._static():
            values = self.side.take(name, rows, (0, 0)).float()
            channel = torch.zeros(len(x), x.shape[1], width)
            channel[:, 0] = values.reshape(len(x), width)
            further.append(channel)
        place = torch.arange(len(x), dtype=x.dtype)[:, None, None].expand(-1, x.shape[1], 1)
        return torch.cat([x, *further, place], 2).to(device)

    def batch(self, rows: Tensor, device: torch.device, draws: Draws, reference: Tensor | None) -> Batch:
        """What the engine fits."""
        z = self.inputs_of(rows, device)
        exists = None if self.exists is None else self.exists[rows].to(device)
        if not self.widened:
            return Batch(z, exists, rows.to(device), draws, None if reference is None else reference.to(device))
        channels, width = self.x.shape[2], z.shape[2]
        there = torch.zeros(z.shape, dtype=torch.bool, device=device)
        there[:, :, :channels] = True if exists is None else exists
        there[:, 0, channels : width - 1] = True
        pinned = self._pinned(width, device)
        if reference is not None:
            others = torch.zeros(len(reference), z.shape[1], width - channels)
            reference = torch.cat([reference, others], 2).to(device)
        return Batch(z, there, rows.to(device), draws, reference, pinned)

    def _pinned(self, width: int, device: torch.device) -> Tensor | None:
        """(D,): the baseline of static features, NaN for channels whose baseline the operators give."""
        static = self._static()
        if not static:
            return None
        values, start = torch.full((width,), torch.nan), self.x.shape[2]
        for name, count in static:
            given = (self.static_baseline or {}).get(name)
            values[start : start + count] = torch.zeros(count) if given is None else torch.tensor(list(given))
            start += count
        return values.to(device)

    @property
    def drawn_channels(self) -> int:
        """D: how many channels the engine's tensors have."""
        return self.x.shape[2] + (sum(size for _, size in self._static()) + 1 if self.widened else 0)

    def map_of(self, fitted: Fitted, rows: Tensor) -> Fitted:
        """The fit of the cells of x alone, with what it found about static features beside it."""
        if not self.widened:
            return fitted
        channels, width = self.x.shape[2], fitted.masks.shape[2]
        cells = ("masks", "scores", "binary", "attributions", "answer_attributions", "deletion_scores", "spread")
        cut: dict[str, Any] = {}
        for name in cells:
            values = getattr(fitted, name)
            cut[name] = None if values is None else values[:, :, :channels]
        if fitted.channel_spread is not None:
            cut["channel_spread"] = fitted.channel_spread[:, :channels]
        if width > channels + 1:
            there = slice(channels, width - 1)
            cut["static_masks"] = fitted.masks[:, 0, there]
            cut["static_attributions"] = None if fitted.attributions is None else fitted.attributions[:, 0, there]
        if fitted.binary is not None:
            exists = self.exists
            number = torch.full_like(fitted.area, self.x[0].numel())
            if exists is not None:
                number = exists[rows].flatten(1).sum(1).to(number)
            cut["area"] = cut["binary"].flatten(1).sum(1) / number.clamp(min=1)
        return replace(fitted, **cut)


def open_bound(binding: Binding, task: str, output: str, device: torch.device) -> tuple[BlackBox, Binding]:
    """Try the model on the first rows: how to read it, and a binding that knows whether it returns several tensors."""
    rows = torch.arange(min(4, len(binding.x)))
    try:
        black_box = open_black_box(binding.model_of(rows, device), binding.inputs_of(rows, device), task, output)
    except LabelsError:
        if task != "classification":
            raise
        network = with_classes(binding, device)
        call = replace(binding.call, output_key=None)
        binding = replace(binding, model=binding.model if network is None else network, call=call)
        black_box = open_black_box(binding.model_of(rows, device), binding.inputs_of(rows, device), task, output)
    except ModelError:
        # A function of several arguments may be one of numpy arrays.
        if isinstance(binding.model, nn.Module) or binding.plan.as_dict or len(binding.plan.arguments) < 2:
            raise
        arguments = [argument for argument, _ in binding.plan.arguments]
        binding = replace(binding, model=ForwardOnly(binding.model, arguments=arguments))
        black_box = open_black_box(binding.model_of(rows, device), binding.inputs_of(rows, device), task, output)
    reads_output = isinstance(black_box.model, AdaptedModel) and not binding.adapted
    return black_box, replace(binding, reads_output=True) if reads_output else binding


def with_classes(binding: Binding, device: torch.device) -> Labelled | None:
    """A model that answers with labels, as one that gives probabilities; all inputs tell which labels there are.

    None where it answers with numbers that are no labels.
    """

    def answers(start: int, stop: int) -> Tensor:
        rows = torch.arange(start, min(stop, len(binding.x)))
        with torch.no_grad():
            return read_output(binding.model_of(rows, device)(binding.inputs_of(rows, device)))

    if answers(0, 2).is_floating_point():
        return None
    found = [answers(start, start + AT_ONCE).cpu().numpy() for start in range(0, len(binding.x), AT_ONCE)]
    return Labelled(binding.model, classes_of(np.concatenate(found)), binding.call.output_key)


def _warn_of_square(model: Model, call: ModelCall, x: Tensor) -> None:
    """Nothing tells (B, T, d) from (B, d, T) where T = d; convolutions of torch take the latter."""
    if call.layout != "auto" or x.shape[1] != x.shape[2] or x.shape[1] == 1 or not isinstance(model, nn.Module):
        return
    if any(isinstance(module, nn.Conv1d) for module in model.modules()):
        _logger.warning(
            "dynamask: the sequences have as many steps as channels, %d, so that their shape does not tell how the "
            "model takes them: it is given (B, T, d). Say layout='channels_first' if it takes (B, d, T), or "
            "layout='channels_last'.",
            x.shape[1],
        )


def asks_for_missing(config: ExplainConfig) -> bool:
    """Whether cells are removed from the model's mask, too."""
    if config.operators is None or MISSING not in config.operators:
        return False
    if len(config.operators) > 1:
        raise ConfigError(f"Expected the operator {MISSING!r} alone, but got {list(config.operators)}.")
    return True
