"""The verb: which cells brought the change of an answer between two times of one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamask_mlflow.masks.adapted_model import Model
from dynamask_mlflow.masks.batching import LEAST, batch_size, in_batches
from dynamask_mlflow.masks.black_box import BlackBox, as_inputs, frozen, open_black_box, resolve_device
from dynamask_mlflow.masks.change.contributions import integrate_change
from dynamask_mlflow.masks.change.joint_ranking import joint_ranking
from dynamask_mlflow.masks.change.moments import Steps, check_moments, known_steps, sequence_ends
from dynamask_mlflow.masks.change.prefixes import Padding
from dynamask_mlflow.masks.change.question import Question, check_causal, filled_rows, readable, score_of
from dynamask_mlflow.masks.change.result import Change
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.explain import explain
from dynamask_mlflow.masks.operators import FadeToReference
from dynamask_mlflow.masks.process_state import untouched_process
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.masks.target import TargetScore, open_target


@dataclass(frozen=True, eq=False)
class _States:
    """Instances of one `until`: what stood before and what stands after, (B, T, d), and since when (B,)."""

    before: Tensor
    after: Tensor
    since: Steps
    until: int
    new: NDArray[np.bool_]

    def take(self, rows: Tensor) -> _States:
        chosen = rows.numpy()
        return replace(
            self,
            before=self.before[rows],
            after=self.after[rows],
            since=self.since[chosen],
            new=self.new[chosen],
        )


def explain_change(
    model: Model,
    x: NDArray[Any] | Tensor,
    *,
    since: Any,
    until: Any = None,
    times: Any = None,
    lengths: Sequence[int] | NDArray[Any] | None = None,
    padding: Padding = None,
    **options: Any,
) -> Change:
    """What changed since? The change of the answer between two times of a sequence, and the cells that brought it.

    Args:
        model: module or callable on (B, T, d), as in `explain`. One that answers at each step is read at both times; to
            one whose `forward` takes `lengths` they are given; for others `padding` says how a prefix is filled up.
        x: (N, T, d), finite.
        since: the earlier time, one for all or N of them: a number of steps (negative: from the end), or with `times` a
            time; the steps that begin before it were known. Or (N, T, d): the earlier sequences themselves.
        until: the later time; None is the end of the sequence.
        times: (T,) or (N, T) times at which the steps begin: hours or timestamps.
        lengths: (N,) how many steps of each sequence exist; the rest is padding.
        padding: "carry" (last values stand), a number or d numbers, "shorter" (the model takes any length), or a
            function of a prefix (B, t, d) and T. None: as the sequences are filled up after their `lengths`.
        **options: `task`, `config`, or any field of `ExplainConfig`, for instance target, class_names, fast, seed.

    Returns:
        The changes of the N instances, in their order.

    Example:
        >>> import torch
        >>> from dynamask_mlflow import explain_change
        >>> def level_of_channel_0(x):
        ...     return x[:, -3:, 0].mean(1)
        >>> x = torch.zeros(1, 6, 2)
        >>> x[0, 4:, 0] = 3.0
        >>> change = explain_change(level_of_channel_0, x, since=4, padding="carry", task="regression", progress=False)
        >>> change.change, change.contributions[0, :, 0]
        (array([2.]), array([0., 0., 0., 0., 1., 1.], dtype=float32))
    """
    inputs = as_inputs(x)
    total, steps, _ = inputs.shape
    ends = sequence_ends(lengths, total, steps)
    last = ends if until is None else known_steps(until, "until", times, ends)
    earlier = _earlier_sequences(since, inputs)
    if earlier is not None and padding is None and int(ends.min()) == steps:
        padding = "carry"  # two whole sequences leave nothing to fill
    question = Question.open(model, inputs, padding, ends, options)
    if earlier is None:
        first = known_steps(since, "since", times, ends)
        check_moments(first, last, ends)
        before = question.rule.nothing_new(inputs, torch.from_numpy(first))
    else:
        first, before = np.zeros(total, dtype=np.int64), earlier
    counted = np.arange(steps)
    new = (counted >= first[:, None]) & (counted < last[:, None])
    parts: list[tuple[NDArray[np.int64], Change]] = []
    for end in np.unique(last):
        rows = np.flatnonzero(last == end)
        at = torch.from_numpy(rows)
        states = _States(before[at], inputs[at], first[rows], int(end), new[rows])
        parts.append((rows, _explain_group(question, states)))
    joined = Change.concatenate([part for _, part in parts])
    return joined[np.argsort(np.concatenate([rows for rows, _ in parts]))]


def _earlier_sequences(since: Any, inputs: Tensor) -> Tensor | None:
    if getattr(since, "ndim", 0) != 3:
        return None
    earlier = as_inputs(since)
    if earlier.shape != inputs.shape:
        raise ValueError(
            f"Expected earlier sequences of shape {tuple(inputs.shape)}, as the later ones, "
            f"but got {tuple(earlier.shape)}."
        )
    return earlier


def _explain_group(question: Question, states: _States) -> Change:
    """Contributions and masks of instances whose later time is the same."""
    settings = question.settings
    device = resolve_device(settings.device)
    reader = question.after(states.until)
    total = len(states.after)
    with untouched_process(reader), frozen(reader, device):
        black_box = open_black_box(reader, states.after[:4].to(device), question.task, settings.output)
        if not black_box.differentiable:
            raise ModelError(
                "Expected a model that is differentiable by its inputs, since contributions to a change are integrals "
                "of gradients, but its output carries no gradient."
            )
        probe = states.after[:1].to(device).expand(total, -1, -1)
        most = batch_size(reader, black_box, probe, settings.memory_budget).instances

        def measure(part: slice, size: int) -> _Measured:
            rows = filled_rows(part.start, part.stop, min(size, LEAST))
            return _measure(question, black_box, states.take(rows), device).first(part.stop - part.start)

        measured = _Measured.joined(list(in_batches(total, most, measure)))
    new = np.repeat(states.new[:, :, None], states.after.shape[2], axis=2)
    against = (FadeToReference(states.before), FadeToReference(_level(states)))
    # The reader itself calls the model as it wants to be called.
    plain = settings.with_options(inputs=None, layout="auto", output_key=None)
    config = plain.with_options(operators=against)
    masks = explain(reader, states.after, task=question.task, observed=new, config=config)
    if states.since.any():
        later = explain(reader, states.after, task=question.task, config=plain.with_options(fast=True))
        masks = joint_ranking(masks, later, new)
    return _to_change(question, states, measured, masks)


@dataclass(frozen=True, eq=False)
class _Measured:
    """On the host: contributions (B, T, d), scores and outputs at both times, (B, ...)."""

    contributions: Tensor
    remainder: Tensor
    before: Tensor
    unchanged: Tensor
    after: Tensor
    outputs_before: Tensor
    outputs_after: Tensor

    def first(self, number: int) -> _Measured:
        return _Measured(**{name: values[:number].cpu() for name, values in vars(self).items()})

    @classmethod
    def joined(cls, parts: list[_Measured]) -> _Measured:
        return cls(**{name: torch.cat([getattr(part, name) for part in parts]) for name in vars(parts[0])})


def _measure(question: Question, black_box: BlackBox, states: _States, device: torch.device) -> _Measured:
    before, after = states.before.to(device), states.after.to(device)
    with torch.no_grad():
        outputs, unchanged = black_box(after), black_box(before)
        target = open_target(question.target, black_box, outputs, unchanged)
        score, score_before = score_of(target, black_box, after), score_of(target, black_box, before)
        earlier, outputs_before = _at_since(question, black_box, target, states, device)
    found = integrate_change(target, before, after)
    return _Measured(
        found.cells,
        found.remainder,
        earlier,
        score_before,
        score,
        readable(black_box, outputs_before),
        readable(black_box, outputs),
    )


def _at_since(
    question: Question, black_box: BlackBox, target: TargetScore, states: _States, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Scores (B,) and outputs (B, S, C) after the first steps; two sequences are compared at one step, `until`."""
    before, after = states.before.to(device), states.after.to(device)
    scores, outputs = torch.zeros_like(after[:, 0, 0]), None
    for steps in np.unique(states.since):
        rows = torch.from_numpy(np.flatnonzero(states.since == steps)).to(device)
        # A batch of all rows, so that each keeps its bits whoever is with it.
        box = question.box(int(steps), black_box) if steps else black_box
        answers = box(before)
        if steps and question.reads_directly:
            check_causal(answers[rows], box(after)[rows])
        scores[rows] = score_of(target, box, before)[rows]
        outputs = answers.clone() if outputs is None else outputs.index_copy(0, rows, answers[rows])
    assert outputs is not None
    return scores, outputs


def _level(states: _States) -> Tensor:
    """(B, T, d): the later state with every new cell at the channel's mean before `since`.

    The last value before `since` is one noisy measurement; beside it, the mean level steadies the ranking. Where the
    score moved up from one and down from the other, the greater move decides, and the other baseline has no weight.
    """
    level = states.before.clone()
    for row, steps in enumerate(states.since):
        if steps:
            level[row, steps:] = states.before[row, :steps].mean(0)
    return level


def _to_change(question: Question, states: _States, measured: _Measured, masks: Masks) -> Change:
    def doubles(values: Tensor) -> NDArray[np.float64]:
        return np.asarray(values.double().numpy())

    before, after = doubles(measured.before), doubles(measured.after)
    elapsed = doubles(measured.unchanged) - before
    if question.rule.fixed_window or not states.since.any():
        elapsed = np.zeros_like(elapsed)
    moved = np.sign(after - before - elapsed).astype(np.int8)
    kept = ("converged", "hold", "constant_prediction", "dead_gradient", "target_class")
    config = {name: value for name, value in masks.config.items() if name != "operators"}
    return Change(
        contributions=measured.contributions.numpy().astype(np.float32),
        elapsed=elapsed,
        before=before,
        after=after,
        since=states.since,
        until=np.full(len(after), states.until, dtype=np.int64),
        masks=masks.masks,
        binary=masks.binary,
        scores=masks.scores,
        direction=np.where(masks.direction == 0, 0, moved).astype(np.int8),
        outputs_before=doubles(measured.outputs_before),
        outputs_after=doubles(measured.outputs_after),
        spread=masks.spread,
        diagnostics={
            "remainder": doubles(measured.remainder),
            "moved_from_level": (moved != 0) & (masks.direction != 0) & (masks.direction != moved),
            **{name: masks.diagnostics[name] for name in kept if name in masks.diagnostics},
        },
        config={**config, "padding": question.rule.spec},
    )
