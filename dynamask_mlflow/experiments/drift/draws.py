"""References and windows drawn from explained stays, and the audit's own verdict on them.

Stays are drawn with replacement: the explained stays are the population, and every window is a fresh one. Nothing is
fitted again, so that thousands of audits cost minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.comparison import compare_subgroups, compare_windows
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.history import FINDINGS
from dynamask_mlflow.audit.verdict import Verdict, evaluate_verdict, subgroup_violations
from dynamask_mlflow.experiments.drift.data import Case

STAGES = (199, 999)  # permutations after which an audit that cannot alarm any more is left
_ROWS = 5  # of so many permutations, the observed one among them, at least as extreme as it: still open
_SLACK = 0.8  # of the least move of attention: its lower bound varies a little with the permutations
_GROUP_PERMUTATIONS = 5999  # as many as the level of a monthly audit with groups needs


def draw(pool: ExplainedWindow, count: int, rng: np.random.Generator, predicted: int = 0) -> ExplainedWindow:
    """So many explained stays, and others with predictions alone until they are `predicted`; each its own patient."""
    usable = np.flatnonzero(pool.usable)
    drawn = take(pool, rng.choice(usable, count), rng)
    if predicted <= count:
        return drawn
    return replace(drawn, predicted=take(pool, rng.choice(usable, predicted - count), rng).predictions)


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


def alarms(
    config: AuditConfig,
    before: ExplainedWindow,
    windows: Sequence[ExplainedWindow],
    by: Sequence[str] = (),
    stages: Sequence[int] = STAGES,
) -> list[list[str]]:
    """The kinds of violations of each audit of a series, the last windows looked at together as audits do.

    Args:
        config: its seed is that of the first audit; each later one has the next.
        by: attributes whose groups are looked at, too; their violations have the kind "subgroup". The other kinds are
            found at the levels of audits without groups, which are larger.
        stages: of the screening, see `screening`; none: every audit is judged in full.
    """
    found, last = [], config.trend_window
    if before.has_inputs:
        edges = before.input_edges()
        before, windows = before.coded(edges), [window.coded(edges) for window in windows]
    for month, now in enumerate(windows):
        own = config.with_options(seed=config.seed + month)
        earlier = windows[month - last + 1 : month] if month >= last - 1 else ()
        kinds = _staged(partial(_found, before, now, earlier), own, stages)
        if by:
            with_groups = own.with_options(by=tuple(by), permutations=_GROUP_PERMUTATIONS)
            kinds |= _staged(partial(_found_in_groups, before, now), with_groups, stages)
        found.append(sorted(kinds))
    return found


def _found(
    before: ExplainedWindow, now: ExplainedWindow, earlier: Sequence[ExplainedWindow], config: AuditConfig
) -> set[str]:
    verdict = evaluate_verdict(compare_windows(before, now, config, earlier=earlier, intervals=False), config)
    return {violation.kind for violation in verdict.violations} if verdict.state in FINDINGS else set()


def _found_in_groups(before: ExplainedWindow, now: ExplainedWindow, config: AuditConfig) -> set[str]:
    test = compare_subgroups(before, now, config, within=False)
    return {violation.kind for violation in subgroup_violations(test, "classification", config)}


def _staged(judged: Callable[[AuditConfig], set[str]], config: AuditConfig, stages: Sequence[int]) -> set[str]:
    """What is found in full, unless a stage before shows that nothing will be."""
    if all(judged(screening(config, permutations)) for permutations in stages):
        return judged(config)
    return set()


def screening(config: AuditConfig, permutations: int) -> AuditConfig:
    """The same audit with the first few of its permutations, at levels so large that no alarm is left out.

    The permutations are the first of those of the full audit, for the same seed. Where a test finds nothing here, at
    least `_ROWS` of them are as extreme as what was observed. They are among those of the full audit, too, whose
    p-value is then at least (_ROWS + 1) / (B + 1), above each of its levels. The argument is exact for one statistic.
    A family scales its statistics by their spread over the permutations, which 199 of them tell to 5 %: a level here
    is 120 times that of the full audit (at 999 permutations, 24 times), which leaves room for that.

    >>> usual = AuditConfig(permutations=4799)
    >>> few = screening(usual, 199)
    >>> few.permutations, round(few.levels["performance"], 3), (5 + 1) / 4800 > max(usual.levels.values())
    (199, 0.025, True)
    """
    share = _ROWS / (permutations + 1) / min(config.levels.values())
    return config.with_options(
        permutations=permutations,
        alpha=min(share * config.alpha / config.audits_per_year, 0.999),
        audits_per_year=1,
        effect=_SLACK * config.effect,
        trend_effect=_SLACK * config.trend_effect,
    )
