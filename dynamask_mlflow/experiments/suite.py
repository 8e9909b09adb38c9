"""Run the plan, log every trial, and go on after a failure; what is logged already is not run again."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynamask_mlflow.experiments.figures import draw_figures
from dynamask_mlflow.experiments.plan import PlannedRun
from dynamask_mlflow.experiments.protocol import Experiment, ExperimentResult, Trial, run_experiment
from dynamask_mlflow.experiments.tracking import MlflowStore

if TYPE_CHECKING:
    from mlflow import MlflowClient

Report = Callable[[str], None]


@dataclass(frozen=True)
class Failure:
    experiment: str
    method: str
    reason: str


@dataclass
class _Group:
    """The trials of one parent run, which several planned_runs may share."""

    experiment: Experiment
    store: MlflowStore
    count: int
    trials: list[Trial]


def run_planned(
    planned_runs: Iterable[PlannedRun],
    experiments: Mapping[str, Experiment],
    *,
    quick: bool,
    report: Report,
    client: MlflowClient | None = None,
    options: Mapping[str, str] | None = None,
) -> list[Failure]:
    """Run method after method; at last log the tables and figures of each parent run.

    Args:
        options: by experiment, what a user has to type beside its name, for instance the folder of its data.
    """
    groups: dict[tuple[str, int], _Group] = {}
    opened: list[tuple[PlannedRun, _Group]] = []
    for planned_run in planned_runs:
        experiment = experiments[planned_run.experiment]
        count = planned_run.instances or (experiment.quick_instances if quick else experiment.instances)
        key = (planned_run.experiment, count)
        if key not in groups:
            command = _command(planned_run, quick, (options or {}).get(planned_run.experiment, ""))
            store = MlflowStore(experiment, {"instances": count, "quick": quick}, command=command, client=client)
            groups[key] = _Group(experiment, store, count, [])
        groups[key].store.note_code(planned_run.methods)
        opened.append((planned_run, groups[key]))
    failures: list[Failure] = []
    for planned_run, group in opened:
        for method in planned_run.methods:
            try:
                group.trials += _run(group, method, planned_run.seeds, quick, report)
            except Exception as error:  # a baseline that cannot explain this model must not end the others
                failures.append(Failure(planned_run.experiment, method, f"{type(error).__name__}: {error}"))
                report(f"{planned_run.experiment}, {method}: failed, {failures[-1].reason}")
    for group in groups.values():
        _finish(group, quick)
    return failures


def _run(group: _Group, method: str, seeds: int | None, quick: bool, report: Report) -> tuple[Trial, ...]:
    return run_experiment(
        group.experiment,
        methods=[method],
        seeds=None if seeds is None else range(seeds),
        instances=group.count,
        quick=quick,
        store=group.store,
        report=report,
    ).trials


def _finish(group: _Group, quick: bool) -> None:
    if not group.trials:
        return
    experiment = group.experiment
    result = ExperimentResult(experiment.name, tuple(group.trials), {"instances": group.count, "quick": quick})
    with tempfile.TemporaryDirectory() as scratch:
        case = experiment.make_case(group.trials[0].seed, group.count, quick)
        group.store.finish(result, draw_figures(experiment.title, result, case, Path(scratch)))


def _command(planned_run: PlannedRun, quick: bool, options: str) -> str:
    """What a user types for one experiment, without seeds and methods."""
    words = ["dynamask-mlflow experiment", planned_run.experiment, options]
    words.append("--quick" if quick else f"--instances {planned_run.instances}" if planned_run.instances else "")
    return " ".join(word for word in words if word)
