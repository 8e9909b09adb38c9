"""References and windows drawn from explained stays, and the audit's own verdict on them.

Stays are drawn with replacement: the explained stays are the population, and every window is a fresh one. Nothing is
fitted again, so that thousands of audits cost minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.comparison import compare_windows
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.history import FINDINGS
from dynamask_mlflow.audit.statistics import input_test, mean_differences, moved_share, permuted_labels, prediction_test
from dynamask_mlflow.audit.verdict import Verdict, evaluate_verdict
from dynamask_mlflow.experiments.drift.data import Case

_SCREEN, _NEAR, _DOUBT = 199, 0.75, 0.05


def draw(pool: ExplainedWindow, count: int, rng: np.random.Generator) -> ExplainedWindow:
    """So many stays, each a patient of its own."""
    return take(pool, rng.choice(np.flatnonzero(pool.usable), count), rng)


def take(pool: ExplainedWindow, rows: NDArray[Any], rng: np.random.Generator) -> ExplainedWindow:
    return replace(pool.take(rows), patients=rng.integers(0, 1 << 62, len(rows)).astype(np.str_))


def judge(
    case: Case,
    before: ExplainedWindow,
    now: ExplainedWindow,
    seed: int,
    *,
    earlier: Sequence[ExplainedWindow] = (),
    inputs: bool = False,
    **more: Any,
) -> Verdict:
    """The verdict, as an audit with this seed would give it."""
    config = case.config.with_options(seed=seed)
    return evaluate_verdict(
        compare_windows(before, now, config, earlier=earlier, look_at_inputs=inputs, **more), config
    )


def alarms(case: Case, before: ExplainedWindow, windows: Sequence[ExplainedWindow], seed: int) -> list[bool]:
    """Whether each audit of a series warns or says DRIFT, the last windows looked at together as audits do.

    Most audits are nowhere near: their lower bounds tell, and only the others are judged in full.
    """
    found, config = [], case.config
    last = config.trend_window
    for month, now in enumerate(windows):
        earlier = list(windows[month - last + 1 : month]) if month >= last - 1 else []
        sets = [([now], config.effect)]
        if earlier:
            sets.append(([*earlier, now], config.trend_effect))
        near = any(_near(before, together, least, seed + month) for together, least in sets)
        if not near and not _worse(case, before, now) and not _warns(case, before, now, seed + month):
            found.append(False)
            continue
        found.append(judge(case, before, now, seed + month, earlier=earlier, inputs=True).state in FINDINGS)
    return found


def _warns(case: Case, before: ExplainedWindow, now: ExplainedWindow, seed: int) -> bool:
    """Whether predictions or inputs, with few permutations, are anywhere near a warning."""
    parts = [before, now]
    patients = np.arange(len(before) + len(now))
    labels = permuted_labels(patients >= len(before), patients, _SCREEN, seed)
    scores, outcomes = (np.concatenate([part.numbers[name] for part in parts]) for name in ("risk", "label"))
    thresholds = case.config.thresholds
    if prediction_test(scores, labels, patients, thresholds=thresholds, outcomes=outcomes).p_value <= _DOUBT:
        return True
    edges = before.input_edges()
    test = input_test(np.concatenate([part.coded(edges).codes for part in parts]), labels)
    return bool(min(test.value_p.min(), test.missing_p.min()) <= _DOUBT)


def _near(before: ExplainedWindow, together: Sequence[ExplainedWindow], least: float, seed: int) -> bool:
    """Whether the lower bound of what moved, with few permutations, is anywhere near the least that alarms."""
    parts = [before, *together]
    patients = np.arange(sum(map(len, parts)))
    labels = permuted_labels(patients >= len(before), patients, _SCREEN, seed)
    for axis in (0, 1):
        values = np.concatenate([part.shares[axis] for part in parts])
        effect = moved_share(values, labels, patients, mean_differences(values, labels))
        if effect.lower >= _NEAR * least:
            return True
    return False


def _worse(case: Case, before: ExplainedWindow, now: ExplainedWindow) -> bool:
    """Whether a quality of the masks moved so far that it might alarm."""
    for name in ("area", "entropy", "ce", "acc"):
        then = before.numbers[name]
        if abs(np.nanmean(now.numbers[name]) - np.nanmean(then)) >= case.config.quality_effect * np.nanstd(then):
            return True
    return False
