"""What changed since a time, for the instances of an evaluation: contributions, masks, and the answer over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.result import DIRECTIONS

if TYPE_CHECKING:
    import torch

    from dynamask_mlflow.masks.change.course import Course
    from dynamask_mlflow.masks.change.result import Change
    from dynamask_mlflow.masks.side_inputs import SideInputs

SCHEMA_VERSION = 1
# Inputs that a prefix of a sequence has.
_TAKEN = ("x", "lengths", "padding_mask", "attention_mask", "valid")


@dataclass(frozen=True, eq=False)
class Changes:
    """Of the sampled instances that are long enough.

    Attributes:
        sample: those instances.
        change: between the two times.
        course: over the whole sequences.
    """

    sample: Sequences
    change: Change
    course: Course


def refuse_other_models(network: torch.nn.Module, side: SideInputs, config: ExplainConfig) -> None:
    """Refuse a model that a change cannot be explained of: one without gradients, or of more inputs than x and lengths.

    How static features, codes or gaps stood at the earlier time is not known; leaving them out would explain another
    model.
    """
    from dynamask_mlflow.masks.forward_only import ForwardOnly
    from dynamask_mlflow.masks.model_call import ModelCall, plan_call

    if isinstance(network, ForwardOnly):
        raise ModelError(
            "Expected a model that is differentiable by its inputs, since contributions to a change are integrals of "
            "gradients, but it only predicts."
        )
    plan = plan_call(network, ModelCall(config.inputs, config.layout, config.output_key), side)
    others = [name for name in plan.names if name not in _TAKEN]
    others += ["NaN where cells were not measured"] if side.nan is not None else []
    if others:
        raise ModelError(
            f"Expected a model of x alone, or of x and lengths, to explain a change, but it also takes "
            f"{', '.join(others)}. Wrap it in a module that holds them for one sequence, and ask for that one."
        )


def require_changes(
    network: torch.nn.Module, sequences: Sequences, *, task: str, config: EvaluationConfig, padding: Any = None
) -> None:
    """Refuse what cannot be asked about a change before anything is fitted."""
    from dynamask_mlflow.masks.black_box import as_inputs
    from dynamask_mlflow.masks.change.moments import sequence_ends
    from dynamask_mlflow.masks.change.question import Question

    refuse_other_models(network, sequences.side, config)
    ends = sequence_ends(sequences.lengths, len(sequences), sequences.x.shape[1])
    options = {"task": task, "config": _settings(config)}
    Question.open(network, as_inputs(sequences.x), _padding(config, padding), ends, options)


def explain_changes(
    network: torch.nn.Module, sample: Sequences, *, task: str, config: EvaluationConfig, padding: Any = None
) -> Changes:
    """Explain the change since `config.change_since`. Instances that end before it are left out.

    `padding` is the model's own rule, used where the settings state none.
    """
    from dynamask_mlflow.masks.change.course import explain_course
    from dynamask_mlflow.masks.change.explain_change import explain_change
    from dynamask_mlflow.masks.change.moments import known_steps, sequence_ends

    times = numeric_times(sample.times)
    ends = sequence_ends(sample.lengths, len(sample), sample.x.shape[1])
    since, until = whole_steps(config.change_since, times), whole_steps(config.change_until, times)
    first = known_steps(since, "change_since", times, ends)
    last = ends if until is None else known_steps(until, "change_until", times, ends)
    rows = np.flatnonzero((first >= 1) & (first < last) & (last <= ends))
    if not len(rows):
        raise ValueError(
            f"Expected sequences with steps before and after change_since={config.change_since!r}, but there are none."
        )
    kept = sample.take(rows)
    common: dict[str, Any] = {
        "lengths": kept.lengths,
        "padding": _padding(config, padding),
        "task": task,
        "config": _settings(config),
    }
    change = explain_change(network, kept.x, since=first[rows], until=last[rows], **common)
    return Changes(kept, change, explain_course(network, kept.x, **common))


def _settings(config: EvaluationConfig) -> ExplainConfig:
    return config.fit_config("nested").with_options(operators=None, deletion=False, progress=False)


def _padding(config: EvaluationConfig, padding: Any) -> Any:
    return padding if config.change_padding is None else config.change_padding


def change_table(changes: Changes) -> dict[str, Any]:
    """One row an instance, in the layout of `mlflow.log_table`."""
    sample, change = changes.sample, changes.change
    frame = change.summary(ids=list(sample.ids), channel_names=list(sample.channel_names))
    frame.insert(1, "direction", [DIRECTIONS[int(way)] for way in change.direction])
    return {"columns": list(frame.columns), "data": frame.astype(object).to_numpy().tolist()}


def change_record(changes: Changes) -> dict[str, Any]:
    """What a page needs to draw the answer over time and what moved it; see docs/change.md for the fields."""
    sample, change, course = changes.sample, changes.change, changes.course
    return {
        "schema_version": SCHEMA_VERSION,
        "target": change.target,
        "padding": change.config.get("padding"),
        "channel_names": list(sample.channel_names),
        "times": list(sample.times),
        "steps": course.steps.tolist(),
        "instances": [
            {
                "id": str(name),
                "since": int(change.since[row]),
                "until": int(change.until[row]),
                "before": float(change.before[row]),
                "after": float(change.after[row]),
                "elapsed": float(change.elapsed[row]),
                "direction": DIRECTIONS[int(change.direction[row])],
                "outputs": _plain(course.outputs[row]),
                "scores": _plain(course.scores[row]),
                "moves": _plain(course.moves[row]),
                "time_alone": _plain(course.elapsed[row]),
                "cells": _cells(change, row),
            }
            for row, name in enumerate(sample.ids)
        ],
    }


def _cells(change: Change, row: int) -> list[list[Any]]:
    """[step, channel, contribution, coefficient, in the mask] of the new cells that count, the largest first."""
    step, channel = np.nonzero(change.binary[row] | (np.abs(change.contributions[row]) >= 5e-4))
    order = np.argsort(-np.abs(change.contributions[row, step, channel]), kind="stable")
    return [
        [
            int(t),
            int(c),
            round(float(change.contributions[row, t, c]), 4),
            round(float(change.masks[row, t, c]), 4),
            bool(change.binary[row, t, c]),
        ]
        for t, c in zip(step[order], channel[order], strict=True)
    ]


def _plain(values: NDArray[Any]) -> Any:
    """Lists that JSON can hold: four decimals, None for what is not there."""
    if values.ndim > 1:
        return [_plain(part) for part in values]
    return [round(float(value), 4) if np.isfinite(value) else None for value in values]


def numeric_times(times: Any) -> NDArray[Any] | None:
    """Times that are numbers or timestamps; None for other labels and for mere places, which are counted in steps."""
    values = np.asarray(times)
    if np.array_equal(values, np.arange(len(values))):
        return None
    return values if values.dtype.kind in "iufM" else None


def whole_steps(when: Any, times: NDArray[Any] | None = None) -> Any:
    """A number of steps as int, where JSON or MLflow's parameters made it a float; a time as it is."""
    return int(when) if times is None and isinstance(when, float) and when.is_integer() else when
