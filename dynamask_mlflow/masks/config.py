"""How to fit masks: settings by concern, joined in `ExplainConfig`; one set of keys in Python, files, forms, flags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from dynamask_mlflow._settings import Area, ConfigError, Count, Many, Names, Positive, Settings, ascending, shown
from dynamask_mlflow.masks.target_spec import parse_target

Task = Literal["classification", "regression"]
TASKS = ("classification", "regression")
_DEVICE = re.compile(r"auto|(?:cpu|cuda|mps|xpu|hpu|xla|privateuseone)(?::\d{1,3})?")


def _listed(operators: Any) -> Any:
    """One operator as a list of one."""
    if operators is None or isinstance(operators, list | tuple):
        return operators if operators is None else tuple(operators)
    return (operators,)


def _numbers_by_name(given: Mapping[str, Any] | None) -> dict[str, list[float]] | None:
    if given is None:
        return None
    try:
        return {str(name): [float(value) for value in values] for name, values in given.items()}
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Expected static_baseline as name -> list of numbers, but got {shown(given)}.") from error


class TargetSettings(Settings):
    """What is explained"""

    target: Any = "auto"
    """What is explained: "auto", a class (index or name), "class:1", "step:5", "horizon:2", or a callable on the
    model's output. "auto" explains how far the answer has moved from its reference answer: a binary risk by its logit,
    one of several classes by its logit minus the mean of the others, a value by itself, answers at every step by all of
    them."""
    class_names: Names | None = None
    """Names of the classes, for targets by name."""

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        try:
            parse_target(self.target, self.class_names)
        except TypeError as error:
            raise ValueError(str(error)) from error
        return self


class MaskSettings(Settings):
    """The method and the mask"""

    method: str = "nested"
    """Name of a registered method: "nested" (the default), "forward" (forward passes alone, which is what "nested" does
    for models without gradients), "paper" (Algorithm 1), ..."""
    operators: Annotated[tuple[Any, ...] | None, BeforeValidator(_listed)] = None
    """Perturbation operators as specs such as "blur:1", "moving_average:3", "past_average:6", "time_mean", "zero",
    "random_fade", "noise", or operators of one's own; None lets the method choose."""
    area: Area | Literal["auto", "best", "extremal"] = "auto"
    """"auto", "best", "extremal", or a share in (0, 1] of the cells."""
    areas: Annotated[Many[Area], AfterValidator(ascending)] | None = None
    """The grid of areas on which the error curve is computed; None lets the method choose."""
    epsilon: Annotated[float, Field(gt=0)] = 0.1
    """For area="extremal": the greatest error, relative to the empty mask's, that is accepted."""
    deletion: bool = False
    """Highlight what changes the prediction most when removed (the appendix's variant)."""
    loss: Literal["auto", "squared", "cross_entropy", "log_loss", "logit", "margin"] = "auto"
    """"auto", "squared", "cross_entropy", "log_loss", "logit" or "margin"."""
    time_weight: Annotated[float, Field(ge=0)] | None = None
    """Weight lambda_c of the jumps of the mask over time; None lets the method choose."""
    fast: bool = False
    """Fewer steps and levels: about half the cost, for a first look."""
    forward_budget: Positive = 300
    """Forward passes an instance for models without gradients (and method="forward")."""

    @field_validator("operators", mode="after")
    @classmethod
    def _check_operators(cls, operators: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        for operator in operators or ():
            if not isinstance(operator, str) and not callable(getattr(operator, "prepare", None)):
                raise ConfigError(f"Expected operators as specs such as 'blur:1', but got {shown(operator)}.")
        return operators


class DescentSettings(Settings):
    """Fits by descent"""

    steps: Positive | None = None
    """Optimisation steps; None is the method's default."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Step size; None is the method's default. One answer a sequence is fitted without one."""
    momentum: float = 1.0
    """Alpha of Algorithm 1, for method="paper"; so are the next three."""
    size_weight: float = 0.1
    """Lambda_0, the first weight of the size regulariser."""
    dilation: Annotated[float, Field(ge=1)] = 1000.0
    """Delta, the factor by which that weight grows."""
    reduction: Literal["sum", "mean"] = "sum"
    """"sum" as in the paper's text, or "mean" as in its released code."""


class CallSettings(Settings):
    """How the model is called"""

    output: Literal["auto", "logits", "probabilities"] = "auto"
    """Whether a classifier gives "logits" or "probabilities"; "auto" looks."""
    shape: Many[int] | None = None
    """(T, d) of a model that takes windows in one row, (B, T d), time by time."""
    inputs: Mapping[str, str] | None = None
    """Argument of the model -> input of the data that it takes, see `ModelCall`; None goes by the names of the model's
    arguments."""
    layout: Literal["auto", "channels_last", "channels_first", "time_first"] = "auto"
    """"channels_last" (B, T, d), "channels_first" (B, d, T) or "time_first" (T, B, d), as the model takes x; "auto" is
    the first."""
    output_key: str | int | None = None
    """Name, position or path ("heads.mortality") of the tensor to explain, where the model returns several."""
    static_baseline: Annotated[Mapping[str, Any] | None, AfterValidator(_numbers_by_name)] = None
    """What static features are replaced by: name of the input -> one number for each; None is 0."""

    @field_validator("shape", mode="after")
    @classmethod
    def _check_shape(cls, shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if shape is not None and (len(shape) != 2 or min(shape) < 1):
            raise ConfigError(f"Expected shape=(T, d), two numbers of at least 1, but got {shape}.")
        return shape


class ComputeSettings(Settings):
    """Where and how it is computed"""

    seed: Count = 0
    """Of every random draw. The mask of an instance depends on its data, these settings and the seed alone."""
    device: str = "auto"
    """"auto" (CUDA, else MPS, else CPU) or a torch device."""
    memory_budget: Positive = 1 << 30
    """Bytes that one batch may take on the device."""
    progress: bool | None = None
    """True, False, or None for a bar on long fits at a terminal."""

    @field_validator("device", mode="before")
    @classmethod
    def _check_device(cls, device: Any) -> Any:
        named = str(device) if type(device).__name__ == "device" else device
        if isinstance(named, str) and not _DEVICE.fullmatch(named):
            raise ConfigError(f"Expected device to be 'auto' or a torch device as 'cuda:0', but got {named!r}.")
        return named


class ExplainConfig(ComputeSettings, CallSettings, DescentSettings, MaskSettings, TargetSettings):
    """Settings of `explain`. Every default is meant to be left alone; `None` and "auto" mean: the method decides.

    >>> ExplainConfig(area=0.1, seed=3).with_options(area="extremal").area
    'extremal'
    >>> ExplainConfig(area=1.5)
    Traceback (most recent call last):
    dynamask_mlflow._settings.ConfigError: Expected area in (0, 1], but got 1.5.
    """
