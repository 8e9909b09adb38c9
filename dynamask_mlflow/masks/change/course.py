"""The answer over the whole sequence, and what moved it from one time to the next.

Moves add up: the contributions of the channels to the change between any two of the times are the sum of the moves
between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamask_mlflow.masks.adapted_model import Model
from dynamask_mlflow.masks.batching import LEAST, batch_size, in_batches
from dynamask_mlflow.masks.black_box import BlackBox, as_inputs, frozen, open_black_box, resolve_device
from dynamask_mlflow.masks.change.contributions import integrate_move
from dynamask_mlflow.masks.change.moments import Steps, sequence_ends
from dynamask_mlflow.masks.change.prefixes import Padding
from dynamask_mlflow.masks.change.question import Question, check_causal, filled_rows, readable, score_of
from dynamask_mlflow.masks.process_state import untouched_process
from dynamask_mlflow.masks.target import open_target

MOST_POINTS = 64
# Moves from one time to the next are short, so that few levels integrate them.
_LEVELS, _TOLERANCE = 2, 0.02
# Moves below this share of the range of the scores are held to what one of that size may miss.
_SMALL = 0.01


@dataclass(frozen=True, eq=False)
class Course:
    """Answers to N sequences after K numbers of steps; NaN after the end of a sequence.

    Attributes:
        steps: (K,) how many steps were known, rising.
        outputs: (N, K, C) probabilities of the classes, or values.
        scores: (N, K) the target score.
        moves: (N, K, d) contribution of each channel to the change of the score since the time before, 0 at the first.
        elapsed: (N, K) what time alone moved since then; with the moves it sums to the change.
    """

    steps: NDArray[np.int64]
    outputs: NDArray[np.float64]
    scores: NDArray[np.float64]
    moves: NDArray[np.float32]
    elapsed: NDArray[np.float64]

    def between(self, since: int, until: int) -> NDArray[np.float64]:
        """(N, d): contributions of the channels between two of the numbers of steps."""
        places = [int(np.flatnonzero(self.steps == when)[0]) if when in self.steps else -1 for when in (since, until)]
        if -1 in places or since >= until:
            raise ValueError(f"Expected two rising numbers of {self.steps.tolist()}, but got {since} and {until}.")
        return np.asarray(self.moves[:, places[0] + 1 : places[1] + 1].sum(axis=1, dtype=np.float64))


def explain_course(
    model: Model,
    x: NDArray[Any] | Tensor,
    *,
    lengths: Sequence[int] | NDArray[Any] | None = None,
    padding: Padding = None,
    points: int = MOST_POINTS,
    **options: Any,
) -> Course:
    """Follow the answer over each sequence, and tell which channels moved it from time to time.

    Args:
        model, x, lengths, padding, options: as in `explain_change`.
        points: at most so many times, spread evenly over the T steps.

    Example:
        >>> import torch
        >>> from dynamask_mlflow.masks.change.course import explain_course
        >>> x = torch.tensor([[[0.0, 5.0], [1.0, 5.0], [3.0, 7.0]]])
        >>> course = explain_course(lambda z: z[:, -1, 0], x, padding="carry", task="regression")
        >>> course.scores, course.moves[0, :, 0]
        (array([[0., 1., 3.]]), array([0., 1., 2.], dtype=float32))
    """
    if points < 2:
        raise ValueError(f"Expected at least 2 points, but got {points}.")
    inputs = as_inputs(x)
    total, steps, _ = inputs.shape
    ends = sequence_ends(lengths, total, steps)
    question = Question.open(model, inputs, padding, ends, options)
    grid = np.unique(np.round(np.linspace(1, steps, min(points, steps))).astype(np.int64))
    device = resolve_device(question.settings.device)
    reader = question.after(steps)
    with untouched_process(reader), frozen(reader, device):
        whole = open_black_box(reader, inputs[:4].to(device), question.task, question.settings.output)
        probe = inputs[:1].to(device).expand(total, -1, -1)
        most = batch_size(reader, whole, probe, question.settings.memory_budget).instances

        def follow(part: slice, size: int) -> Course:
            rows = filled_rows(part.start, part.stop, min(size, LEAST))
            number = part.stop - part.start
            return _follow(question, whole, inputs[rows].to(device), ends[rows.numpy()], grid, number)

        parts = list(in_batches(total, most, follow))
    names = ("outputs", "scores", "moves", "elapsed")
    return Course(grid, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _follow(question: Question, whole: BlackBox, x: Tensor, ends: Steps, grid: Steps, number: int) -> Course:
    def stood(steps: int) -> Tensor:
        return question.rule.nothing_new(x, torch.full((len(x),), steps, device=x.device))

    with torch.no_grad():
        first = question.box(int(grid[0]), whole)
        last = question.box(int(grid[-1]), whole)
        target = open_target(question.target, last, last(x), first(stood(int(grid[0]))))
        if question.reads_directly:
            check_causal(first(stood(int(grid[0]))), first(x))
    boxes = [question.box(int(steps), whole) for steps in grid]
    outputs, scores, elapsed = [], [], []
    state = x
    with torch.no_grad():
        for box, steps in zip(boxes, grid, strict=True):
            carried = score_of(target, box, state)
            state = stood(int(steps))
            outputs.append(readable(box, box(state)))
            scores.append(score_of(target, box, state))
            elapsed.append(carried - scores[-2] if len(scores) > 1 else torch.zeros_like(carried))
    followed = torch.stack(scores)
    small = _SMALL * (followed.amax(0) - followed.amin(0))
    moves = [torch.zeros_like(x[:, 0])]
    before = stood(int(grid[0]))
    for box, steps in zip(boxes[1:], grid[1:], strict=True):
        asked = type(target)(box, target.weights, target.function, target.chosen, target.for_answer)
        after = stood(int(steps))
        moves.append(integrate_move(asked, before, after, _LEVELS, _TOLERANCE, small).cells.sum(1))
        before = after
    late = grid > ends[:, None]

    def on_host(values: list[Tensor], dtype: Any) -> NDArray[Any]:
        joined = torch.stack(values, 1).cpu().numpy().astype(dtype)
        joined[late] = np.nan
        return joined[:number]

    return Course(
        grid,
        on_host(outputs, np.float64),
        on_host(scores, np.float64),
        on_host(moves, np.float32),
        on_host(elapsed, np.float64),
    )
