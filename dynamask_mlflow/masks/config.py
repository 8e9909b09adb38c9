"""How to fit masks: one frozen dataclass whose keys are the same in Python, YAML, DAG params and the CLI."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

from dynamask_mlflow._validation import ConfigError, check_types, shown
from dynamask_mlflow.masks.target_spec import parse_target

Task = Literal["classification", "regression"]
TASKS = ("classification", "regression")
LOSSES = ("auto", "squared", "cross_entropy", "log_loss", "logit", "margin")
AREA_RULES = ("auto", "best", "extremal")
OUTPUTS = ("auto", "logits", "probabilities")
LAYOUTS = ("channels_last", "channels_first")


def reject_unknown_keys(cls: type[Any], keys: Iterable[str]) -> None:
    """Raise for the first key that is no field of `cls`, naming the nearest one that is."""
    known = [f.name for f in fields(cls)]
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"Unknown key {key!r}.{hint} Valid keys: {', '.join(known)}.")


def _numbers_by_name(given: Mapping[str, Any]) -> dict[str, list[float]]:
    try:
        return {str(name): [float(value) for value in values] for name, values in given.items()}
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Expected static_baseline as name -> list of numbers, but got {shown(given)}.") from error


@dataclass(frozen=True, kw_only=True)
class ExplainConfig:
    """Settings of `explain`. Every default is meant to be left alone; `None` and "auto" mean: the method decides.

    Attributes:
        method: name of a registered method: "nested" (the default), "forward" (forward passes alone, which is what
            "nested" does for models without gradients), "paper" (Algorithm 1), ...
        target: what is explained: "auto", a class (index or name), "class:1", "step:5", "horizon:2", or a callable on
            the model's output. "auto" explains how far the answer has moved from its reference answer: a binary risk
            by its logit, one of several classes by its logit minus the mean of the others, a value by itself, answers
            at every step by all of them.
        class_names: names of the classes, for targets by name.
        operators: perturbation operators as specs such as "blur:1", "moving_average:3", "past_average:6",
            "time_mean", "zero", "random_fade", "noise", or operators of one's own; None lets the method choose.
        area: "auto", "best", "extremal", or a share in (0, 1] of the cells.
        areas: the grid of areas on which the error curve is computed; None lets the method choose.
        epsilon: for area="extremal": the greatest error, relative to the empty mask's, that is accepted.
        deletion: highlight what changes the prediction most when removed (the appendix's variant).
        loss: "auto", "squared", "cross_entropy", "log_loss", "logit" or "margin".
        time_weight: weight lambda_c of the jumps of the mask over time; None lets the method choose.
        fast: fewer steps and levels: about half the cost, for a first look.
        steps: optimisation steps; None is the method's default.
        learning_rate: step size; None is the method's default. One answer a sequence is fitted without one.
        momentum: alpha of Algorithm 1, for method="paper"; so are the next three.
        size_weight: lambda_0, the first weight of the size regulariser.
        dilation: delta, the factor by which that weight grows.
        reduction: "sum" as in the paper's text, or "mean" as in its released code.
        output: whether a classifier gives "logits" or "probabilities"; "auto" looks.
        forward_budget: forward passes an instance for models without gradients (and method="forward").
        shape: (T, d) of a model that takes windows in one row, (B, T d), time by time.
        inputs: argument of the model -> input of the data that it takes, see `ModelCall`; None goes by the names of the
            model's arguments.
        layout: "channels_last" (B, T, d) or "channels_first" (B, d, T), as the model takes x; "auto" is the first.
        output_key: name or position of the tensor to explain, where the model returns several.
        static_baseline: what static features are replaced by: name of the input -> one number for each; None is 0.
        seed: of every random draw. The mask of an instance depends on its data, these settings and the seed alone.
        device: "auto" (CUDA, else MPS, else CPU) or a torch device.
        memory_budget: bytes that one batch may take on the device.
        progress: True, False, or None for a bar on long fits at a terminal.
    """

    method: str = "nested"
    target: Any = "auto"
    class_names: tuple[str, ...] | None = None
    operators: tuple[Any, ...] | None = None
    area: float | str = "auto"
    areas: tuple[float, ...] | None = None
    epsilon: float = 0.1
    deletion: bool = False
    loss: str = "auto"
    time_weight: float | None = None
    fast: bool = False
    steps: int | None = None
    learning_rate: float | None = None
    momentum: float = 1.0
    size_weight: float = 0.1
    dilation: float = 1000.0
    reduction: str = "sum"
    output: str = "auto"
    forward_budget: int = 300
    shape: tuple[int, ...] | None = None
    inputs: Mapping[str, str] | None = None
    layout: str = "auto"
    output_key: str | int | None = None
    static_baseline: Mapping[str, Any] | None = None
    seed: int = 0
    device: str = "auto"
    memory_budget: int = 1 << 30
    progress: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.areas, float | int) and not isinstance(self.areas, bool):
            raise ConfigError(f"Expected areas to be a list of shares in (0, 1], but got {self.areas!r}.")
        check_types(self, leave=("operators", "target"))
        if self.operators is not None and (isinstance(self.operators, str) or not hasattr(self.operators, "__iter__")):
            object.__setattr__(self, "operators", (self.operators,))
        elif self.operators is not None:
            object.__setattr__(self, "operators", tuple(self.operators))
        if isinstance(self.class_names, str):
            raise ValueError(f"Expected class_names to be a list, but got {self.class_names!r}.")
        if self.class_names is not None:
            object.__setattr__(self, "class_names", tuple(str(name) for name in self.class_names))
        parse_target(self.target, self.class_names)
        if self.areas is not None:
            object.__setattr__(self, "areas", tuple(sorted(float(a) for a in self.areas)))
            if not self.areas or not all(0 < a <= 1 for a in self.areas):
                raise ValueError(f"Expected areas in (0, 1], but got {self.areas}.")
        if isinstance(self.area, str):
            if self.area not in AREA_RULES:
                raise ValueError(
                    f"Expected area to be a share in (0, 1] or one of {AREA_RULES}, but got {self.area!r}."
                )
        elif not 0 < self.area <= 1:
            raise ValueError(f"Expected area in (0, 1], but got {self.area}.")
        if self.loss not in LOSSES:
            raise ValueError(f"Expected loss to be one of {LOSSES}, but got {self.loss!r}.")
        if not self.epsilon > 0:
            raise ValueError(f"Expected epsilon > 0, but got {self.epsilon}.")
        if self.time_weight is not None and self.time_weight < 0:
            raise ValueError(f"Expected time_weight >= 0, but got {self.time_weight}.")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"Expected steps >= 1, but got {self.steps}.")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ValueError(f"Expected learning_rate > 0, but got {self.learning_rate}.")
        if self.dilation < 1:
            raise ValueError(f"Expected dilation >= 1, but got {self.dilation}.")
        if self.reduction not in ("sum", "mean"):
            raise ValueError(f"Expected reduction to be 'sum' or 'mean', but got {self.reduction!r}.")
        if self.output not in OUTPUTS:
            raise ValueError(f"Expected output to be one of {OUTPUTS}, but got {self.output!r}.")
        if self.forward_budget < 1:
            raise ValueError(f"Expected forward_budget of at least 1 pass, but got {self.forward_budget}.")
        if self.shape is not None and (len(self.shape) != 2 or min(self.shape) < 1):
            raise ValueError(f"Expected shape=(T, d), two numbers of at least 1, but got {self.shape}.")
        if self.layout not in ("auto", *LAYOUTS):
            raise ValueError(f"Expected layout to be one of {('auto', *LAYOUTS)}, but got {self.layout!r}.")
        if self.inputs is not None:
            if not all(isinstance(word, str) for pair in self.inputs.items() for word in pair):
                raise ValueError(f"Expected inputs as argument -> name of an input, but got {dict(self.inputs)}.")
            object.__setattr__(self, "inputs", dict(self.inputs))
        if self.static_baseline is not None:
            object.__setattr__(self, "static_baseline", _numbers_by_name(self.static_baseline))
        if self.memory_budget < 1:
            raise ValueError(f"Expected memory_budget in bytes, at least 1, but got {self.memory_budget}.")

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> Self:
        """Build a configuration from any mapping; an unknown key is an error that names the nearest valid one."""
        reject_unknown_keys(cls, options)
        return cls(**options)

    def with_options(self, **options: Any) -> Self:
        reject_unknown_keys(type(self), options)
        return replace(self, **options)
