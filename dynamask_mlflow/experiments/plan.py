"""The whole set: which methods each experiment runs, over how many seeds and sequences.

Dear methods get fewer sequences, and the results page says so. `released` and `paper` are Algorithm 1 in its two
readings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynamask_mlflow.experiments.protocol import Experiment

OURS = ("nested", "nested-deletion", "nested-25", "nested-20", "nested-15")
_SIGNED = ("ig_signed", "ig_mean_signed", "gs_signed", "lime_signed", "dl_signed")


@dataclass(frozen=True)
class PlannedRun:
    """Methods of one experiment that share seeds and sequences; None is as many as the experiment has."""

    experiment: str
    methods: tuple[str, ...]
    seeds: int | None = None
    instances: int | None = None


_RARE = (
    ("nested", "random", "ig", "ig_mean", "ig_smooth", "gs", "dl", "fo", "afo", "fp", "lime", "extrmask", "svs"),
    ("paper", "released", "retain"),
)
# The cheapest first, so that a set that is cut short has the most to show.
PLAN: tuple[PlannedRun, ...] = (
    *(PlannedRun(name, methods) for name in ("rare-feature", "rare-time") for methods in _RARE),
    PlannedRun(
        "state", ("nested", "nested-25", "nested-20", "nested-15", "random", "ig", "ig_mean", "ig_smooth"), 3, 10
    ),
    PlannedRun("state", ("dl", "gs", "fo", "afo", "fp", "lime", "retain", "extrmask", "extrmask-sum"), 3, 10),
    PlannedRun("mimic", ("nested", "nested-deletion", "random", "ig", "ig_mean", "ig_smooth", *_SIGNED), 3, 64),
    PlannedRun("mimic", ("dl", "gs", "lime", "fo", "fo_mean", "retain", "extrmask", "extrmask-deletion"), 3, 64),
    PlannedRun("mimic", ("paper", "released"), 3, 64),
    PlannedRun("motif", ("nested", "random", "ig", "ig_mean", "ig_smooth", *_SIGNED), 3, 20),
    PlannedRun("motif", ("dl", "gs", "fo", "afo", "fp", "lime", "retain", "extrmask"), 3, 20),
    PlannedRun(
        "hospital", ("nested", "random", "ig", "ig_mean", "ig_smooth", *_SIGNED, "gs", "dl", "fo", "lime"), 3, 40
    ),
    PlannedRun("perturbation", ("nested",), 3, 10),
    PlannedRun("state", ("svs", "fit", "paper", "released"), 3, 10),
    PlannedRun("hospital", ("retain", "extrmask", "afo", "fp"), 3, 40),
    PlannedRun("mimic", ("afo", "fp"), 3, 64),
    PlannedRun("mimic", ("nested", "ig_mean_signed", "svs", "svs_signed", "fit"), 3, 16),
    PlannedRun("motif", ("svs", "fit", "paper"), 2, 10),
    PlannedRun("perturbation", ("paper",), 1, 4),
)
NAMES = tuple(dict.fromkeys(planned_run.experiment for planned_run in PLAN))


def planned_runs(
    only: Sequence[str] | None = None, methods: Sequence[str] | None = None, quick: bool = False
) -> Iterator[PlannedRun]:
    """The plan, or a part of it; with `quick` each experiment has its own few seeds and sequences."""
    for planned_run in PLAN:
        chosen = tuple(name for name in planned_run.methods if methods is None or name in methods)
        if chosen and (only is None or planned_run.experiment in only):
            size = (None, None) if quick else (planned_run.seeds, planned_run.instances)
            yield PlannedRun(planned_run.experiment, chosen, *size)


def planned_methods() -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for planned_run in PLAN for name in planned_run.methods))


def mimic_methods() -> tuple[str, ...]:
    """All that are compared on stays."""
    return tuple(
        dict.fromkeys(name for planned_run in PLAN if planned_run.experiment == "mimic" for name in planned_run.methods)
    )


def baselines() -> tuple[str, ...]:
    """Everything that does not come out of the engine of nested masks."""
    return tuple(name for name in planned_methods() if name not in OURS)


def open_experiments(path: Path | None) -> Mapping[str, Experiment]:
    """The experiments of the plan by name; `path` is that of the stays for "mimic"."""
    from dynamask_mlflow.experiments.hospital import hospital_experiment
    from dynamask_mlflow.experiments.mimic import mimic_experiment
    from dynamask_mlflow.experiments.perturbation import perturbation_experiment
    from dynamask_mlflow.experiments.registry import motif_experiment, rare_experiment, state_experiment

    return {
        "rare-feature": rare_experiment("feature"),
        "rare-time": rare_experiment("time"),
        "state": state_experiment(),
        "mimic": mimic_experiment(path),
        "motif": motif_experiment(),
        "hospital": hospital_experiment(),
        "perturbation": perturbation_experiment(),
    }
