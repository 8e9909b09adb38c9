"""What a report shows: arrays and words, already computed. Nothing here knows where they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamask_mlflow._states import STATES, State

Verdict = Literal["ok", "warning", "drift", "inconclusive"]
TASKS = ("classification", "regression")


def _shape(name: str, value: ArrayLike | None, *expected: int) -> None:
    """Check the leading axes of an array; trailing ones are free."""
    if value is not None and np.shape(value)[: len(expected)] != expected:
        raise ValueError(f"Expected {name} of shape {expected}, but got {np.shape(value)}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves:
    """Quality against the share of cells in the mask, and the same for as many cells drawn at random.

    Attributes:
        areas: (A,) increasing shares in (0, 1].
        values: name -> (A,), for instance "error", "ce", "acc". NaN marks a point that was not measured.
        random: the same names for random masks of equal area.
        low, high: the same names, an interval around `values`.
    """

    areas: ArrayLike
    values: Mapping[str, ArrayLike] = field(default_factory=dict)
    random: Mapping[str, ArrayLike] = field(default_factory=dict)
    low: Mapping[str, ArrayLike] = field(default_factory=dict)
    high: Mapping[str, ArrayLike] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if np.ndim(self.areas) != 1:
            raise ValueError(f"Expected areas of shape (A,), but got {np.shape(self.areas)}.")
        for name, value in [i for part in (self.values, self.random, self.low, self.high) for i in part.items()]:
            _shape(f"curve {name!r}", value, len(np.asarray(self.areas)))
            if np.ndim(value) != 1:
                raise ValueError(f"Expected curve {name!r} of shape (A,), but got {np.shape(value)}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Contributions:
    """What raised and what lowered each answer.

    Attributes:
        cells: (N, T, d) signed, in the answer's units; they sum to `answer - reference`.
        answer, reference: (N,) the target score, and what it is compared with.
        logit: whether answers are log-odds, so that a risk can be read off them.
        unit: of answers in sentences: "log-odds", "mmol/L", ...
        channel_spread: (N, d) standard deviation of a channel's contribution over the baselines, in the answer's units.
        target: what was explained, in words: "the risk of death", "the value at horizon 6".
        against: what the reference answer is an answer to, in words that follow "the model's answer".
        held_level: whether that is the sequence itself with every channel held level, so that differences from other
            sequences which last all along are in no contribution.
    """

    cells: ArrayLike
    answer: ArrayLike
    reference: ArrayLike
    logit: bool = False
    unit: str = ""
    channel_spread: ArrayLike | None = None
    target: str = ""
    against: str = "to its baselines"
    held_level: bool = False

    def __post_init__(self) -> None:
        n, _, channels = np.shape(self.cells)
        _shape("answer", self.answer, n)
        _shape("reference", self.reference, n)
        _shape("channel_spread", self.channel_spread, n, channels)


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetView:
    """The masks of another target of the same instances, for instance another horizon of a forecast.

    Attributes:
        label: of the choice on the page. masks: (N, T, d). scores, highlighted: as in `ReportData`.
        predictions: (N,) what the model says about this target.
    """

    label: str
    masks: ArrayLike
    scores: ArrayLike | None = None
    highlighted: ArrayLike | None = None
    contributions: Contributions | None = None
    predictions: ArrayLike | None = None


@dataclass(frozen=True, kw_only=True)
class Paired:
    """A measure of the masks beside the same measure of controls on the same instances.

    Attributes:
        shift, low, high: the mean above the unperturbed prediction, and its 95 % interval over the instances.
        controls: name -> (mean shift of the control, p-value of a paired test that the masks are better).
        instances: how many were compared.
    """

    shift: float
    low: float
    high: float
    instances: int
    controls: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """Two models or versions on the same instances.

    Attributes:
        labels: what the two are called.
        by_channel, by_time: two arrays each, shares of the masks. profiles: two mean masks (T, d).
        moved_channels: positions whose share differs beyond chance.
        rows: of a table, name -> number.
    """

    labels: tuple[str, str]
    by_channel: tuple[ArrayLike, ArrayLike]
    by_time: tuple[ArrayLike, ArrayLike]
    profiles: tuple[ArrayLike, ArrayLike]
    moved_channels: Sequence[int] = ()
    rows: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Course:
    """The answer over each sequence, and what moved it from one time to the next.

    Attributes:
        steps: (K,) how many steps were known, rising.
        answers: (N, K) the risk or the value then; NaN after the end of a sequence.
        moves: (N, K, d) signed contribution of each channel since the time before, in the target's units.
        elapsed: (N, K) what time alone moved since then.
        unit: of the moves.
        since, until: (N,) steps known at the two times that the page shows first; None: the last quarter.
    """

    steps: ArrayLike
    answers: ArrayLike
    moves: ArrayLike
    elapsed: ArrayLike
    unit: str = ""
    since: ArrayLike | None = None
    until: ArrayLike | None = None

    def __post_init__(self) -> None:
        n, points, _ = np.shape(self.moves)
        _shape("steps", self.steps, points)
        _shape("answers", self.answers, n, points)
        _shape("elapsed", self.elapsed, n, points)
        for name in ("since", "until"):
            if getattr(self, name) is not None:
                _shape(name, getattr(self, name), n)


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodResult:
    """One explanation method in a comparison: its summary numbers and, if there are any, its curves."""

    metrics: Mapping[str, float]
    curves: Curves | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditPoint:
    """One audit in the history: a label such as "2026-03", the verdict, and the numbers drawn over time."""

    label: str
    verdict: Verdict | State
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftData:
    """A reference window against the current one.

    Attributes:
        verdict: "ok", "warning", "drift" or "inconclusive".
        reasons: sentences in plain words, the most important first. told: the same in parts, (title, sentences) each.
        reference_label, current_label: what the two windows are called.
        reference_by_channel, current_by_channel: (d,) share of the mask's mass by channel.
        reference_by_time, current_by_time: (T,) the same by time.
        reference_profile, current_profile: (T, d) mean masks, if they are to be drawn.
        moved_channels, moved_times: positions whose change is beyond chance; drawn with emphasis.
        explained: how many instances of the current window are, of which the page may show fewer; None: those it shows.
        tests: rows of a table, name -> value, for instance {"share moved between channels": 0.061}.
        causes: name -> share of the change, for instance {"data": 0.05, "model": 0.01}.
        history: all audits, oldest first.
        thresholds: metric -> the level above which an audit alarms; drawn in the history.
    """

    verdict: Verdict | State
    reasons: Sequence[str] = ()
    told: Sequence[tuple[str, Sequence[str]]] = ()
    reference_label: str = "reference"
    current_label: str = "current"
    reference_by_channel: ArrayLike
    current_by_channel: ArrayLike
    reference_by_time: ArrayLike
    current_by_time: ArrayLike
    reference_profile: ArrayLike | None = None
    current_profile: ArrayLike | None = None
    moved_channels: Sequence[int] = ()
    moved_times: Sequence[int] = ()
    explained: int | None = None
    tests: Mapping[str, float | str] = field(default_factory=dict)
    causes: Mapping[str, float] = field(default_factory=dict)
    history: Sequence[AuditPoint] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in STATES:
            raise ValueError(f"Expected verdict to be one of {STATES}, but got {self.verdict!r}.")
        channels, steps = len(np.asarray(self.reference_by_channel)), len(np.asarray(self.reference_by_time))
        _shape("current_by_channel", self.current_by_channel, channels)
        _shape("current_by_time", self.current_by_time, steps)
        _shape("reference_profile", self.reference_profile, steps, channels)
        _shape("current_profile", self.current_profile, steps, channels)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportData:
    """Everything one page shows about N instances of T steps and d channels.

    Attributes:
        title, model, created_at: free text for the head of the page.
        task: "classification" or "regression".
        ids: N names of instances. channel_names: d. times: T labels, numbers or text.
        time_unit: what one step of `times` is called in sentences: "hour", "step", ...
        masks: (N, T, d) in [0, 1], the share of each cell that the mask keeps.
        predictions: (N,) text or numbers, (N, C) class probabilities; with `per_step` (N, T) or (N, T, C).
            For classification a (N,) of numbers is the probability of the second of two classes.
        predictions_without: the same shape, after the salient cells were replaced by their average over time.
        targets: (N,) text or numbers (class positions for classification); with `per_step` (N, T).
        class_names: C names; None numbers the classes.
        per_step: the model predicts at every step.
        metrics: per instance, name -> (N,): "area", "entropy", "information", "ce", "flipped" (boolean), ...
        summary: name -> number for the whole evaluation; "ce/random" stands beside "ce". None takes means.
        explanations: name -> one line for metrics of your own; the known ones have theirs.
        scores: (N, T, d) a full ordering of the cells; lets the reader choose an area.
        highlighted: (N, T, d) the cells in the mask; None: those that are at least as likely salient as not.
        errors: (N, A) error at each area of `curves.areas`, per instance.
        contributions: what raised and lowered each answer. views: other targets of the same instances.
        channel_labels: d names as a reader knows them, "Potassium (lab)"; None: `channel_names`. units: d, "" if none.
        population: mean prediction that an instance is read against. threshold: where a risk becomes an alarm.
        paired: measure -> the masks beside random cells and another instance's mask, on the same instances.
        groups: rows of a table by predicted class and risk band: {"group": ..., "instances": ..., ...}.
        calibration: rows of predicted and observed rates by band of the risk.
        lengths: (N,) steps that exist; what follows is padding and is drawn as such. None: all of them.
        observed: (N, T, d) False where a cell was not measured but filled in.
        inputs: (N, T, d) raw values; None keeps them out of the page altogether.
        profile_by_channel (d,), profile_by_time (T,), profile (T, d): mean importance; None: from the masks.
        curves: for all instances together. method: the name of what was used.
        comparison: method -> its result, when several methods were run.
        settings: how it was made, name -> anything printable.
        notes, warnings: sentences shown at the foot and at the head.
        drift: adds the drift section. compared: adds a section about two models.
        course: the answer over each sequence, with what moved it.
    """

    title: str
    model: str
    created_at: str
    task: Literal["classification", "regression"]
    ids: Sequence[str]
    channel_names: Sequence[str]
    times: Sequence[Any]
    masks: ArrayLike
    time_unit: str = "step"
    predictions: ArrayLike | None = None
    predictions_without: ArrayLike | None = None
    targets: ArrayLike | None = None
    class_names: Sequence[str] | None = None
    per_step: bool = False
    metrics: Mapping[str, ArrayLike] = field(default_factory=dict)
    summary: Mapping[str, float] | None = None
    explanations: Mapping[str, str] = field(default_factory=dict)
    scores: ArrayLike | None = None
    highlighted: ArrayLike | None = None
    errors: ArrayLike | None = None
    contributions: Contributions | None = None
    views: Sequence[TargetView] = ()
    channel_labels: Sequence[str] | None = None
    units: Sequence[str] | None = None
    population: float | None = None
    threshold: float | None = None
    paired: Mapping[str, Paired] = field(default_factory=dict)
    groups: Sequence[Mapping[str, Any]] = ()
    calibration: Sequence[Mapping[str, float]] = ()
    lengths: ArrayLike | None = None
    observed: ArrayLike | None = None
    inputs: ArrayLike | None = None
    profile_by_channel: ArrayLike | None = None
    profile_by_time: ArrayLike | None = None
    profile: ArrayLike | None = None
    curves: Curves | None = None
    method: str = "mask"
    comparison: Mapping[str, MethodResult] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    drift: DriftData | None = None
    compared: Compared | None = None
    course: Course | None = None

    def __post_init__(self) -> None:
        if np.ndim(self.masks) != 3:
            raise ValueError(f"Expected masks of shape (N, T, d), but got {np.shape(self.masks)}.")
        n, steps, channels = np.shape(self.masks)
        if self.task not in TASKS:
            raise ValueError(f"Expected task to be one of {TASKS}, but got {self.task!r}.")
        labels: dict[str, tuple[Sequence[Any], int]] = {
            "ids": (self.ids, n),
            "channel_names": (self.channel_names, channels),
            "times": (self.times, steps),
        }
        for name in ("channel_labels", "units"):
            if getattr(self, name) is not None:
                labels[name] = (getattr(self, name), channels)
        for name, (values, expected) in labels.items():
            if len(values) != expected:
                raise ValueError(f"Expected {expected} {name}, but got {len(values)}.")
        outputs = (n, steps) if self.per_step else (n,)
        for name in ("predictions", "predictions_without", "targets"):
            _shape(name, getattr(self, name), *outputs)
        for name in ("scores", "highlighted", "observed", "inputs"):
            _shape(name, getattr(self, name), n, steps, channels)
        _shape("lengths", self.lengths, n)
        if self.course is not None:
            _shape("course", self.course.moves, n)
        for view in self.views:
            _shape(f"masks of {view.label!r}", view.masks, n, steps, channels)
        for found in (self.contributions, *(view.contributions for view in self.views)):
            if found is not None:
                _shape("contributions", found.cells, n, steps, channels)
        for name, metric in self.metrics.items():
            _shape(f"metric {name!r}", metric, n)
        _shape("profile_by_channel", self.profile_by_channel, channels)
        _shape("profile_by_time", self.profile_by_time, steps)
        _shape("profile", self.profile, steps, channels)
        if self.errors is not None:
            if self.curves is None:
                raise ValueError("Expected curves (for their areas) beside errors, but got none.")
            _shape("errors", self.errors, n, len(np.asarray(self.curves.areas)))
        if self.drift is not None:
            _shape("drift.reference_by_channel", self.drift.reference_by_channel, channels)
            _shape("drift.reference_by_time", self.drift.reference_by_time, steps)

    @property
    def mask_array(self) -> NDArray[np.float32]:
        """Masks as numbers in [0, 1]; what is not a number counts as 0."""
        return np.clip(np.nan_to_num(np.asarray(self.masks, dtype=np.float32)), 0.0, 1.0)
