"""The months of the synthetic hospital after the reference year, one audit each, and a version trained after them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.statistics import compare_versions
from dynamask_mlflow.audit.verdict import version_alarms
from dynamask_mlflow.experiments.drift.data import Case
from dynamask_mlflow.experiments.drift.draws import judge, take
from dynamask_mlflow.experiments.drift.windows import Report

# What was planted, by the channel whose inputs it moves: first and last month.
PLANTED = {"LACTATE": ("2024-01", "2024-12"), "SpO2": ("2024-04", "2024-12"), "Temp": ("2024-09", "2024-09")}


def calendar_notes(case: Case, pool: ExplainedWindow, report: Report) -> list[str]:
    later = case.dataset.part("later")
    months = sorted(set(later.windows.tolist()))[: 3 if case.quick else None]
    told = case.cached(f"calendar {len(months)}", lambda: _months(case, pool, months, report))
    wanted = [{name for name, (first, last) in PLANTED.items() if first <= month <= last} for month in months]
    found = [set(entry["inputs"]) for entry in told]
    missed = sum(len(want - have) for want, have in zip(wanted, found, strict=True))
    false = sum(len(have - want) for want, have in zip(wanted, found, strict=True))
    lines = [
        f"{month}: {entry['state']}, p = {entry['p']:.4f}, channels {entry['channels']:.3f}, hours "
        f"{entry['hours']:.3f}; attention: {', '.join(entry['moved']) or '-'}; inputs: "
        f"{', '.join(entry['inputs']) or '-'}."
        for month, entry in zip(months, told, strict=True)
    ]
    total = sum(map(len, wanted))
    return [
        *lines,
        f"Of {total} planted changes of inputs, month by month, {total - missed} were told, with {false} false ones.",
        *_treatment(case),
    ]


def _months(case: Case, pool: ExplainedWindow, months: list[str], report: Report) -> list[dict[str, object]]:
    later, rng = case.dataset.part("later"), np.random.default_rng(0)
    rows = rng.permutation(np.flatnonzero(pool.usable))[: case.reference_size]
    before = replace(take(pool, rows, rng), patients=pool.patients[rows])
    windows: list[ExplainedWindow] = []
    told: list[dict[str, object]] = []
    for month in months:
        stays = later.window(month)
        now = case.measured(f"month {month}", stays.select(np.arange(min(len(stays), case.size))))
        earlier = windows[1 - case.config.trend_window :] if len(windows) >= case.config.trend_window - 1 else []
        verdict = judge(case, before, now, 0, earlier=earlier, inputs=True)
        kinds = {violation.kind for violation in verdict.violations}
        if "attention" not in kinds:  # what was told is no part of a trend
            windows.append(now)
        told.append(
            {
                "state": "DRIFT (trend)" if "trend" in kinds else verdict.state.replace("drift", "DRIFT"),
                "p": verdict.metrics["p_value"],
                "channels": verdict.metrics["moved_channels"],
                "hours": verdict.metrics["moved_hours"],
                "moved": list(verdict.moved_channels),
                "inputs": list(verdict.moved_inputs),
            }
        )
        report(f"{month}: {told[-1]}")
    return told


def _treatment(case: Case) -> list[str]:
    """A version trained after the planted change of treatment, on the stays of before: the cause is the model."""
    later = case.dataset.part("later")
    after = later.select(later.windows >= "2024-07")
    splits = np.where(after.patient_ids % 6 == 0, "validation", "train")
    stays = case.pool.select(np.arange(40 if case.quick else 120))
    network = case.version(0, stays=replace(after, splits=splits))
    old, new = case.measured("anchors ", stays), case.measured("treated", stays, network)
    shift = compare_versions(old.shares, new.shares)
    order = np.argsort(shift.channel_shift)
    told = ", ".join(f"{old.channel_names[i]} {shift.channel_shift[i]:+.3f}" for i in [*order[:3], *order[-3:]])
    state = "DRIFT" if version_alarms(shift, case.config) else "no alarm"
    return [
        "A version trained from 2024-07 on, when respiratory failure no longer matters, on the stays of before: "
        f"{state}; {told}."
    ]
