"""What is asked of a model about a change: the target, and how it answers after some steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.masks.adapted_model import Model
from dynamask_mlflow.masks.black_box import BlackBox, frozen, resolve_device
from dynamask_mlflow.masks.change.moments import Steps
from dynamask_mlflow.masks.change.prefixes import AnswerAfter, Padding, PrefixRule, prefix_rule
from dynamask_mlflow.masks.config import TASKS, ExplainConfig
from dynamask_mlflow.masks.model_call import ModelCall
from dynamask_mlflow.masks.process_state import untouched_process
from dynamask_mlflow.masks.target import TargetScore
from dynamask_mlflow.masks.target_spec import Target, parse_target

# Answers at a step that move by more than this share of their scale with later steps are not causal.
_CAUSAL = 1e-4


@dataclass(frozen=True)
class Question:
    """The model, how it answers after some steps, the task and the settings."""

    model: Model
    rule: PrefixRule
    task: str
    settings: ExplainConfig
    target: Target

    @classmethod
    def open(cls, model: Model, x: Tensor, padding: Padding, ends: Steps, options: dict[str, Any]) -> Question:
        """Settle it, or refuse; `options` are `task`, `config`, and fields of `ExplainConfig`."""
        task, settings = _settings(dict(options))
        device = resolve_device(settings.device)
        call = ModelCall(settings.inputs, settings.layout, settings.output_key)
        with untouched_process(model), frozen(model, device):
            rule = prefix_rule(model, x.to(device), padding, ends, call)
        target = parse_target(settings.target, settings.class_names)
        if target.step is not None and rule.per_step:
            raise ValueError(
                f"Expected a target without a step, since the times name the steps, but got {settings.target!r}."
            )
        return cls(model, rule, task, settings, target)

    def after(self, steps: int) -> AnswerAfter:
        return AnswerAfter(self.model, steps, self.rule)

    def box(self, steps: int, like: BlackBox) -> BlackBox:
        """The model after so many steps, its outputs read as those of `like`."""
        return BlackBox(self.after(steps), like.task, like.output)

    @property
    def reads_directly(self) -> bool:
        """Whether answers at each step are read off one pass, which must not look ahead."""
        return self.rule.per_step and self.rule.fill == "none"


def _settings(options: dict[str, Any]) -> tuple[str, ExplainConfig]:
    task, config = options.pop("task", "classification"), options.pop("config", None)
    if task not in TASKS:
        raise ValueError(f"Expected task to be one of {TASKS}, but got {task!r}.")
    settings = (config or ExplainConfig()).with_options(**options)
    if settings.method != "nested" or settings.deletion or settings.operators is not None:
        raise ConfigError(
            "Expected the default method without operators and deletion, since a change is explained against the "
            f"earlier state, but got method={settings.method!r}, operators={settings.operators!r}, "
            f"deletion={settings.deletion}."
        )
    return task, settings


def score_of(target: TargetScore, box: BlackBox, x: Tensor) -> Tensor:
    """(B,): the target score of the answers of `box`, whichever time it reads."""
    if target.function is not None:
        score: Tensor = target.function(box.raw(x))
        return score
    return target.of_outputs(box(x))


def readable(box: BlackBox, outputs: Tensor) -> Tensor:
    """(B, C): probabilities of the classes, or values, from outputs (B, S, C)."""
    return (outputs.softmax(-1) if box.task == "classification" else outputs).flatten(1)


def check_causal(alone: Tensor, with_later: Tensor) -> None:
    """Refuse a model whose answer at an earlier step depends on later ones."""
    moved = float((alone - with_later).abs().max()) if len(alone) else 0.0
    if moved > _CAUSAL * max(1.0, float(alone.abs().max()) if len(alone) else 1.0):
        raise ValueError(
            f"Expected answers that later steps do not move, but the answer at `since` moves by {moved:.3g} with what "
            "came after it: the model looks ahead. Pass `padding` to say how it is asked for an earlier answer."
        )


def filled_rows(start: int, stop: int, least: int) -> Tensor:
    """Places start .. stop, the last one repeated up to a multiple of `least`: each instance keeps its bits."""
    number = stop - start
    return torch.arange(start, start + -(-number // least) * least).clamp(max=stop - 1)
