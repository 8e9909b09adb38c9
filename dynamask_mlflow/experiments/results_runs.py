"""The logged runs of the experiments, read back: a section a title, an entry a method."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamask_mlflow.experiments.protocol import ExperimentResult, Summary, Trial
from dynamask_mlflow.experiments.tracking import (
    CODE_TAG,
    COMMAND_TAG,
    HARDWARE_TAG,
    METHOD_TAG,
    MLFLOW_EXPERIMENT,
    NAME_TAG,
    PARENT_TAG,
    SEED_TAG,
    TITLE_TAG,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


@dataclass(frozen=True)
class Entry:
    """All trials of one method that share their settings."""

    method: str
    instances: int
    command: str
    version: str
    hardware: str
    trials: tuple[Trial, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted(trial.seed for trial in self.trials))

    def summary(self, metric: str, seeds: Collection[int] | None = None) -> Summary:
        """Over all seeds, or over those given, where two methods are to be compared."""
        trials = tuple(trial for trial in self.trials if seeds is None or trial.seed in seeds)
        return ExperimentResult("", trials, {}).summary(self.method, metric)

    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for trial in self.trials for name in trial.metrics))


@dataclass(frozen=True)
class Section:
    """One experiment of one title: what the page shows as one table.

    Attributes:
        entries: one a method, the largest. smaller: the same methods on fewer instances, to be compared with dear ones.
    """

    name: str
    title: str
    entries: tuple[Entry, ...]
    smaller: tuple[Entry, ...] = ()

    def result(self) -> ExperimentResult:
        """All trials together, as if one run had made them."""
        return ExperimentResult(self.name, tuple(trial for entry in self.entries for trial in entry.trials), {})

    def entry(self, method: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.method == method), None)

    def peer(self, own: Entry, baseline: Entry) -> Entry:
        """The entry of our method on as many instances as the baseline's, if there is one; else its own largest."""
        return next(
            (one for one in self.smaller if (one.method, one.instances) == (own.method, baseline.instances)), own
        )


def read_sections(
    client: MlflowClient, mlflow_experiment: str = MLFLOW_EXPERIMENT, quick: bool = False
) -> tuple[Section, ...]:
    """Every title that was logged, in the order of the paper.

    Trials of different code never share an entry: those of the code that ran last count. Where that ran a method more
    than once under a title, the run with the most instances in all counts, and of equal ones the latest. Quick runs are
    smoke tests and left out unless asked for.
    """
    home = client.get_experiment_by_name(mlflow_experiment)
    if home is None:
        raise ValueError(f"Expected an MLflow experiment {mlflow_experiment!r} with logged runs, but there is none.")
    runs = _all_runs(client, home.experiment_id)
    parents = {run.info.run_id: run for run in runs if PARENT_TAG not in run.data.tags and NAME_TAG in run.data.tags}
    if not quick:
        parents = {key: run for key, run in parents.items() if run.data.params.get("quick") != "True"}
    children: dict[tuple[str, str], list[Run]] = {}
    newest: dict[tuple[str, str], str] = {}
    for run in runs:
        parent = run.data.tags.get(PARENT_TAG, "")
        if parent in parents and run.info.status == "FINISHED":
            method, code = run.data.tags[METHOD_TAG], run.data.tags.get(CODE_TAG, "")
            if newest.setdefault((parents[parent].data.tags[TITLE_TAG], method), code) == code:
                children.setdefault((parent, method), []).append(run)
    all_entries: dict[str, dict[str, list[Entry]]] = {}
    names: dict[str, str] = {}
    for (parent, method), found in children.items():
        run = parents[parent]
        title = run.data.tags[TITLE_TAG]
        names[title] = run.data.tags[NAME_TAG]
        entry = _entry(run, method, found)
        all_entries.setdefault(title, {}).setdefault(method, []).append(entry)
    sections = [_section(names[title], title, entries) for title, entries in all_entries.items()]
    return tuple(sorted(sections, key=lambda section: (_place(section.name), section.title)))


_ORDER = ("rare-feature", "rare-time", "state", "perturbation", "mimic", "motif")


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _section(name: str, title: str, entries: Mapping[str, Sequence[Entry]]) -> Section:
    """Of equal entries the first, which is the latest, is shown."""
    shown = {
        method: max(found, key=lambda entry: entry.instances * len(entry.trials)) for method, found in entries.items()
    }
    smaller = (
        entry for method, found in entries.items() for entry in found if entry.instances < shown[method].instances
    )
    return Section(name, title, tuple(shown.values()), tuple(smaller))


def _all_runs(client: MlflowClient, home: str) -> list[Run]:
    """Latest first."""
    runs: list[Any] = []
    token = None
    while True:
        page = client.search_runs([home], order_by=["attributes.start_time DESC"], max_results=1000, page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs


def _entry(parent: Run, method: str, found: Sequence[Run]) -> Entry:
    trials: dict[int, Trial] = {}
    for run in found:  # latest first: an earlier trial of the same seed does not count
        seed = int(run.data.tags[SEED_TAG])
        trials.setdefault(seed, Trial(seed, method, _finite(run.data.metrics)))
    return Entry(
        method=method,
        instances=int(parent.data.params.get("instances", "0")),
        command=parent.data.tags.get(COMMAND_TAG, ""),
        version=parent.data.params.get("version", ""),
        hardware=found[0].data.tags.get(HARDWARE_TAG, ""),
        trials=tuple(trials[seed] for seed in sorted(trials)),
    )


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
