"""References and windows drawn from explained stays, and the audit's own verdict on them.

Stays are drawn with replacement: the explained stays are the population, and every window is a fresh one. Nothing is
fitted again, so that thousands of audits cost minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from dynamask_mlflow.audit.comparison import compare_subgroups, compare_windows, slices_of
from dynamask_mlflow.audit.explained_window import ExplainedWindow, PredictedStays
from dynamask_mlflow.audit.history import FINDINGS
from dynamask_mlflow.audit.statistics import (
    LEVELS,
    UNKNOWN,
    Bools,
    Floats,
    Labels,
    classification_scores,
    mean_differences,
    moved_share,
    permuted_labels,
    ranked,
    scaled,
    weighted_residuals,
)
from dynamask_mlflow.audit.verdict import Verdict, evaluate_verdict, subgroup_violations
from dynamask_mlflow.experiments.drift.data import Case

_SCREEN, _NEAR = 199, 0.9
# An alarm needs a p-value of .0008 at most, hence a difference of 3.3 standard errors, and more of them among the many
# statistics of inputs (about 60) and of slices (about 800). What is below these is not judged in full.
_DOUBT, _DOUBT_INPUTS, _DOUBT_SLICES = 3.0, 3.3, 3.8
_FEW = 49  # permutations for the spread of scores that have no simple one
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
    case: Case, before: ExplainedWindow, windows: Sequence[ExplainedWindow], seed: int, by: Sequence[str] = ()
) -> list[list[str]]:
    """The kinds of violations of each audit of a series, the last windows looked at together as audits do.

    Most audits are nowhere near an alarm: a few permutations tell, and only the others are judged in full.

    Args:
        by: attributes whose groups are looked at, too; their violations have the kind "subgroup". The other kinds are
            found at the levels of audits without groups, which are larger.
    """
    found, config = [], case.config
    last = config.trend_window
    groups = config.with_options(by=tuple(by), permutations=_GROUP_PERMUTATIONS) if by else None
    for month, now in enumerate(windows):
        earlier = list(windows[month - last + 1 : month]) if month >= last - 1 else []
        sets = [([now], config.effect)]
        if earlier:
            sets.append(([*earlier, now], config.trend_effect))
        doubtful = (
            any(_near(before, together, least, seed + month) for together, least in sets)
            or _worse(case, before, now)
            or any(_warns(case, before, now, earlier, seed + month))
        )
        kinds: set[str] = set()
        if doubtful:
            verdict = judge(case, before, now, seed + month, earlier=earlier, inputs=True)
            if verdict.state in FINDINGS:
                kinds = {violation.kind for violation in verdict.violations}
        if groups is not None:
            test = compare_subgroups(before, now, groups.with_options(seed=seed + month))
            kinds |= {violation.kind for violation in subgroup_violations(test, "classification", groups)}
        found.append(sorted(kinds))
    return found


def _warns(
    case: Case, before: ExplainedWindow, now: ExplainedWindow, earlier: Sequence[ExplainedWindow], seed: int
) -> Iterator[bool]:
    """Whether predictions, outcomes, inputs, and inputs within slices are near a warning: far below its |z|."""
    stays = [part.predictions for part in (before, now)]
    scores, outcomes, current = _outcomes(stays)
    columns = [scores, ranked(scores), *(scores >= threshold for threshold in case.config.thresholds)]
    columns += [np.square(outcomes - scores), *weighted_residuals(scores, outcomes).T]
    yield bool(_z(np.column_stack(columns), current).max() >= _DOUBT)
    yield ks_2samp(scores[~current], scores[current]).statistic >= case.config.input_effect
    labels = permuted_labels(current, np.arange(len(current)), _FEW, seed).astype(np.float64)
    first, second = (classification_scores(scores, outcomes, side) for side in (1 - labels, labels))
    yield bool(scaled(np.column_stack([second[k] - first[k] for k in ("auroc", "auprc")]))[0].max() >= _DOUBT)
    if earlier:
        scores, outcomes, current = _outcomes([part.predictions for part in (before, *earlier, now)], len(stays[0]))
        yield bool(_z(weighted_residuals(scores, outcomes), current).max() >= _DOUBT)
    parts, edges = [before, now], before.input_edges()
    codes = np.concatenate([part.coded(edges).codes for part in parts])
    current = np.arange(len(codes)) >= len(before)
    below = np.stack([codes <= cut for cut in range(LEVELS - 1)], axis=2).astype(np.float64)
    below[codes == UNKNOWN] = np.nan
    gaps = np.abs(np.nanmean(below[current], axis=0) - np.nanmean(below[~current], axis=0)).max(axis=1)
    z = _z(below.reshape(len(codes), -1), current).reshape(len(gaps), -1).max(axis=1)
    yield bool(((z >= _DOUBT_INPUTS) & (gaps >= case.config.input_effect)).any())
    places = np.where(codes == UNKNOWN, np.nan, codes / (LEVELS - 1))
    yield any(bool(_z(places[member], current[member]).max() >= _DOUBT_SLICES) for member in slices_of(parts).values())


def _outcomes(stays: Sequence[PredictedStays], reference: int | None = None) -> tuple[Floats, Floats, Bools]:
    """Risks and outcomes of the reference and of the windows after it, and which of the stays are current."""
    scores, outcomes = (np.concatenate([part.numbers[name] for part in stays]) for name in ("risk", "label"))
    return scores, outcomes, np.arange(len(scores)) >= (len(stays[0]) if reference is None else reference)


def _z(values: Floats, current: Bools) -> Floats:
    """(k,) differences of the means of (n, k) values in standard errors of exchanged stays; NaN is left out."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    many = [known[side].sum(axis=0) for side in (~current, current)]
    means = [filled[side].sum(axis=0) / np.maximum(n, 1) for side, n in zip((~current, current), many, strict=True)]
    total = np.maximum(many[0] + many[1], 1)
    spread = np.square(filled).sum(axis=0) / total - np.square(filled.sum(axis=0) / total)
    error = np.sqrt(np.maximum(spread, 0.0) * (1 / np.maximum(many[0], 1) + 1 / np.maximum(many[1], 1)))
    usable = (error > 1e-12) & (many[0] > 1) & (many[1] > 1)
    return np.asarray(np.where(usable, np.abs(means[1] - means[0]) / np.where(usable, error, 1.0), 0.0))


def _labels(before: Sequence[Sized], now: Sequence[Sized], seed: int) -> tuple[Labels, NDArray[Any]]:
    """A few permutations of stays, each a patient of its own, and the patients."""
    sizes = [sum(map(len, parts)) for parts in (before, now)]
    patients = np.arange(sum(sizes))
    return permuted_labels(patients >= sizes[0], patients, _SCREEN, seed), patients


def _near(before: ExplainedWindow, together: Sequence[ExplainedWindow], least: float, seed: int) -> bool:
    """Whether the lower bound of what moved, with few permutations, is anywhere near the least that alarms."""
    parts = [before, *together]
    labels, patients = _labels(parts[:1], parts[1:], seed)
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
