"""The tasks of the arena by name: how their sequences are drawn, and how a model of them is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from torch import nn

from dynamask_mlflow.experiments.arena import events, held_out, literature, per_step, values, white_boxes
from dynamask_mlflow.experiments.arena.data import Draw, Generator, Part, draw_part
from dynamask_mlflow.experiments.models import Pooling

Answer = Literal["class", "classes at every step", "value", "risk"]


@dataclass(frozen=True, kw_only=True)
class ArenaTraining:
    """How a model of the arena is trained.

    Attributes:
        sequences: drawn afresh in every epoch.
        lead: how much stronger the planted evidence is at first; it falls to 1 within a third of the epochs.
        stop_at: validation accuracy (or R^2) that ends the training, once the evidence has its final strength.
        input_scale: factor of a recurrent layer's first weights on its inputs, for inputs of small spread.
    """

    epochs: int = 40
    sequences: int = 1000
    batch_size: int = 50
    learning_rate: float = 5e-3
    hidden: int = 48
    lead: float = 2.0
    stop_at: float = 0.99
    pooling: Pooling = "mean"
    input_scale: float = 1.0


@dataclass(frozen=True)
class Task:
    """A task by name.

    Attributes:
        draw: see `Draw`.
        answer: what the model gives.
        classes: how many of them there are.
        training: of its models. recurrent: of its recurrent models, where they need another one.
        white_boxes: architecture -> a model that needs no training, from the random stream that all parts share.
        test: how many test sequences are drawn.
        version: raised when the generator changes, so that cached models are not mistaken for new ones.
    """

    name: str
    draw: Draw
    answer: Answer = "class"
    classes: int = 2
    training: ArenaTraining = field(default_factory=ArenaTraining)
    recurrent: ArenaTraining | None = None
    white_boxes: dict[str, Callable[[Generator], nn.Module]] = field(default_factory=dict)
    test: int = 400
    version: int = 1

    def part(self, *, seed: int, n: int, part: int = 0, strength: float = 1.0) -> Part:
        return draw_part(self.name, self.draw, seed=seed, n=n, part=part, strength=strength)


_MAX = ArenaTraining(pooling="max")
_RECURRENT = ArenaTraining(epochs=60, learning_rate=1e-2, hidden=64)
_SLOW = ArenaTraining(epochs=60, stop_at=0.93)
_LONG = ArenaTraining(epochs=16, sequences=240, batch_size=16, hidden=16, pooling="max")

_ALL = (
    Task("freqshapes", literature.freqshapes, classes=4),
    Task(
        "seqcomb-uv",
        partial(literature.seqcomb, 200, 1),
        classes=4,
        recurrent=ArenaTraining(epochs=50, learning_rate=1e-2, input_scale=5.0),
    ),
    Task("seqcomb-mv", partial(literature.seqcomb, 150, 4), classes=4),
    Task("lowvar", literature.lowvar, classes=4, training=ArenaTraining(lead=1.0)),
    Task("flat", events.flat, training=ArenaTraining(lead=1.0, pooling="max")),
    Task("redundant", events.redundant, training=_MAX),
    Task("xor", partial(events.xor, (1,)), training=_MAX, version=2),
    Task("xor-both", partial(events.xor, (2,)), training=_MAX, version=2),
    Task(
        "long",
        partial(events.one_motif, events.MotifShape(2000, 2, 30, 1)),
        training=_LONG,
        white_boxes={"filter": partial(white_boxes.matched_filter, 2, 30)},
        test=120,
        version=2,
    ),
    Task(
        "wide",
        partial(events.one_motif, events.MotifShape(50, 200, 10, 60)),
        training=_MAX,
        white_boxes={"filter": partial(white_boxes.matched_filter, 200, 10)},
        version=2,
    ),
    Task("lengths", partial(events.unequal_lengths, True)),
    Task("lengths-zeros", partial(events.unequal_lengths, False)),
    Task(
        "switch-feature",
        per_step.switch_feature,
        "classes at every step",
        training=ArenaTraining(lead=1.0),
        version=2,
    ),
    Task("delayed-spike", per_step.delayed_spike, "classes at every step", training=ArenaTraining(stop_at=0.997)),
    Task("linear-regression", values.linear, "value", white_boxes={"white-box": white_boxes.weighted_sum}),
    Task("product", values.product, "value", white_boxes={"white-box": white_boxes.product_of_means}),
    Task("ramp-regression", values.ramp_height, "value", training=ArenaTraining(stop_at=0.985)),
    Task("both-signs", values.both_signs, "value", training=ArenaTraining(stop_at=0.97)),
    Task("raw-units", events.raw_units, recurrent=ArenaTraining(epochs=50, learning_rate=1e-2)),
    Task("synchrony", events.synchrony),
    Task("level-shift", held_out.level_shift),
    Task("frequency-burst", held_out.frequency_burst, recurrent=_RECURRENT),
    Task("two-of-three", held_out.two_of_three, training=_MAX, recurrent=ArenaTraining(epochs=60)),
    Task("many-channels", held_out.many_channels),
    Task("risk", held_out.risk, "risk", training=_SLOW, recurrent=replace(_RECURRENT, stop_at=0.93)),
)
TASKS = {task.name: task for task in _ALL}
