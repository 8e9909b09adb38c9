"""How an experiment runs: a case for each seed, masks by each method, metrics of the masks, and a summary.

An experiment is data: what it draws for a seed, how its masks are judged, and which columns its table has.
One function runs them all, so every method meets the same cases and the same metrics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.saliency import background

Explain = Callable[..., Masks]
SHOWN = 4
"""How many instances of a trial keep their masks for the figures."""


@dataclass(frozen=True, eq=False)
class Case:
    """What one seed asks of a method.

    Attributes:
        model: the black box.
        x: (N, T, d) the sequences to explain.
        truth: the salient cells, broadcast to x; None where nobody knows them.
        task: "classification" or "regression".
        facts: what is known of the case, for instance the model's accuracy on held-out data.
        background: (M, T, d) training sequences, for methods that need reference data.
        channel_names: of the d channels, for figures.
        lengths: (N,) how many steps of each sequence exist; None: all of them.
        counted: (N, T, d) the cells that take part in scores; None: all that exist.
    """

    model: Any
    x: NDArray[np.float32]
    truth: NDArray[np.bool_] | None
    task: str
    facts: Mapping[str, float] = field(default_factory=dict)
    background: NDArray[np.float32] | None = None
    channel_names: tuple[str, ...] = ()
    lengths: NDArray[np.int64] | None = None
    counted: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Preset:
    """A method with settings that belong to an experiment, such as the paper's grid of areas."""

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """An experiment by name.

    Attributes:
        title: what the table shows, one line.
        make_case: (seed, instances, quick) to a case.
        score: metrics of the masks of a case.
        columns: metric -> heading, in the order of the table.
        seeds, instances: how many a full run has; the paper's number of repetitions where it states one.
        presets: names that stand for a method with settings; any other name is a registered method.
        default_methods: run when none is named.
        explain: the experiment's own way to the masks of a case; None is the package's.
    """

    name: str
    title: str
    make_case: Callable[[int, int, bool], Case]
    score: Callable[[Case, Masks], Mapping[str, float]]
    columns: Mapping[str, str]
    seeds: int
    instances: int
    quick_seeds: int = 2
    quick_instances: int = 2
    presets: Mapping[str, Preset] = field(default_factory=dict)
    default_methods: tuple[str, ...] = ("nested",)
    explain: Explain | None = None

    def preset(self, method: str) -> Preset:
        return self.presets.get(method, Preset(method))


@dataclass(frozen=True)
class Trial:
    """One method on the case of one seed, and the masks of its first instances, to be looked at."""

    seed: int
    method: str
    metrics: Mapping[str, float]
    masks: Masks | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation (n - 1) of one metric of one method over the seeds where it is defined."""

    mean: float
    deviation: float
    count: int


@dataclass(frozen=True)
class ExperimentResult:
    """All trials of a run."""

    experiment: str
    trials: tuple[Trial, ...]
    settings: Mapping[str, Any]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(trial.method for trial in self.trials))

    def summary(self, method: str, metric: str) -> Summary:
        values = np.array([t.metrics.get(metric, np.nan) for t in self.trials if t.method == method])
        values = values[~np.isnan(values)]
        deviation = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
        return Summary(float(values.mean()) if len(values) else float("nan"), deviation, len(values))


class Store(Protocol):
    """Where finished trials are kept, so that they are not run again."""

    def find(self, seed: int, method: str) -> Trial | None: ...

    def add(self, trial: Trial) -> None: ...


def run_experiment(
    experiment: Experiment,
    *,
    methods: Sequence[str] | None = None,
    seeds: Iterable[int] | None = None,
    instances: int | None = None,
    quick: bool = False,
    store: Store | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> ExperimentResult:
    """Run every (seed, method) that the store does not hold yet.

    Args:
        quick: fewer seeds and instances and, where a model is trained, a smaller one.
        report: called with a line for each trial.
    """
    chosen = tuple(methods or experiment.default_methods)
    numbers = list(seeds) if seeds is not None else list(range(experiment.quick_seeds if quick else experiment.seeds))
    count = instances or (experiment.quick_instances if quick else experiment.instances)
    if not numbers or len(set(numbers)) != len(numbers):
        raise ValueError(f"Expected at least one seed and no seed twice, but got {numbers}.")
    explain = experiment.explain
    if explain is None:
        from dynamask_mlflow.masks.explain import explain as package_explain

        explain = package_explain
    trials = []
    for seed in numbers:
        finished = {method: store.find(seed, method) if store else None for method in chosen}
        waiting = any(trial is None for trial in finished.values())
        case = experiment.make_case(seed, count, quick) if waiting else None
        for method in chosen:
            trial = finished[method]
            if trial is None and case is not None:
                trial = _run_trial(experiment, case, seed, method, explain)
                seconds = trial.metrics["seconds_per_instance"]
                report(f"{experiment.name}, seed {seed}, {method}: {seconds:.3g} s an instance")
                if store:
                    store.add(trial)
            if trial is not None:
                trials.append(trial)
    settings = {"seeds": numbers, "instances": count, "quick": quick, "methods": list(chosen)}
    return ExperimentResult(experiment.name, tuple(trials), settings)


def _run_trial(experiment: Experiment, case: Case, seed: int, method: str, explain: Explain) -> Trial:
    preset = experiment.preset(method)
    start, start_cpu = time.perf_counter(), time.process_time()
    options = dict(preset.options) if case.lengths is None else {**preset.options, "lengths": case.lengths}
    with nullcontext() if case.background is None else background(case.background):
        masks = explain(case.model, case.x, task=case.task, method=preset.method, seed=seed, **options)
    seconds = (time.perf_counter() - start) / len(case.x)
    # On a shared machine the processor's time says more about a method than the clock on the wall.
    cpu = (time.process_time() - start_cpu) / len(case.x)
    costs = {"seconds_per_instance": seconds, "cpu_seconds_per_instance": cpu}
    metrics = {**case.facts, **experiment.score(case, masks), **costs}
    return Trial(seed, method, {name: float(value) for name, value in metrics.items()}, masks[:SHOWN])
