"""The prediction arm: did predicted risks, classes or values move, and do they still tell the outcome?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import standard_error
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import ranked, standardized, step_down
from dynamask_mlflow.audit.statistics.performance import (
    Scores,
    classification_scores,
    regression_scores,
    surprise,
)
from dynamask_mlflow.audit.statistics.permutation import SETTLED, Permutations, in_chunks, mean_differences

_Z975 = 1.959963984540054
_LEAST = 10  # cases, and other stays, of each window for an AUROC
_BOOTSTRAPS = 400


@dataclass(frozen=True)
class Shift:
    """One number of both windows.

    Attributes:
        reference, current: its values. low, high: 95 % confidence interval of their difference, with patients as units.
        p_value: by permutation of patients, adjusted (step-down) over the predictions' numbers, or over those of what
            they are worth.
    """

    reference: float
    current: float
    low: float
    high: float
    p_value: float = 1.0

    @property
    def difference(self) -> float:
        return self.current - self.reference


@dataclass(frozen=True)
class PredictionTest:
    """Predictions of the reference window against those of the current one.

    Attributes:
        mean: of the predicted risk or value; its p-value is the smaller of that of the mean and that of the ranks,
            since risks are skewed. spread: its standard deviation in the reference window.
        distribution: `current` is the Kolmogorov-Smirnov distance of both windows; `reference` is 0.
        above: threshold -> share of stays above it. classes: class -> share of stays, if there are more than two.
        performance: "auroc", "auprc", "brier", "calibration" (observed minus predicted; its p-value is the smaller of
            that of the difference as it is and in standard deviations); "error" for values.
        labelled: stays with a known outcome in the reference and in the current window.
    """

    mean: Shift
    spread: float
    distribution: Shift
    above: Mapping[float, Shift] = field(default_factory=dict)
    classes: Mapping[int, Shift] = field(default_factory=dict)
    performance: Mapping[str, Shift] = field(default_factory=dict)
    labelled: tuple[int, int] = (0, 0)

    @property
    def p_value(self) -> float:
        """The smallest of both families."""
        groups = (self.above, self.classes, self.performance)
        return min(s.p_value for s in (self.mean, self.distribution, *(s for group in groups for s in group.values())))


def prediction_test(
    scores: Floats,
    labels: Labels,
    patients: NDArray[Any],
    *,
    thresholds: Sequence[float] = (),
    classes: Floats | None = None,
    outcomes: Floats | None = None,
    task: str = "classification",
) -> PredictionTest:
    """Compare (n,) predictions of both windows; `labels` come from `permuted_labels`.

    Args:
        scores: predicted risks or values. thresholds: of the risk. classes: (n,) predicted classes.
        outcomes: (n,) what really happened, NaN where nobody knows.
    """
    current = labels[0] > 0
    kinds = [] if classes is None else [int(kind) for kind in np.unique(classes)]
    columns = [scores, *(scores >= t for t in thresholds), *(classes == kind for kind in kinds)]
    values = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    tested = np.column_stack([values, ranked(scores)])
    distances = _distances(scores, labels)[:, None]
    gaps = np.abs(mean_differences(tested, labels))
    p = step_down(standardized(np.concatenate([gaps, distances], axis=1)))
    p[0] = min(p[0], p[-2])
    means = [
        replace(shift, p_value=float(chance))
        for shift, chance in zip(_mean_shifts(values, current, patients), p, strict=False)
    ]
    performance, labelled = _performance(scores, outcomes, labels, patients, task)
    cut = 1 + len(thresholds)
    return PredictionTest(
        mean=means[0],
        spread=float(scores[~current].std()),
        distribution=Shift(0.0, float(distances[0, 0]), 0.0, 1.0, float(p[-1])),
        above=dict(zip(thresholds, means[1:cut], strict=True)),
        classes=dict(zip(kinds, means[cut:], strict=True)),
        performance=performance,
        labelled=labelled,
    )


def paired_shift(first: Floats, second: Floats, patients: NDArray[Any]) -> Shift:
    """Means of two predictions for the same stays, with the 95 % interval of their difference by patient."""
    gap = second - first
    names, code = np.unique(patients, return_inverse=True)
    pull = np.zeros(len(names))
    np.add.at(pull, code, (gap - gap.mean()) / len(gap))
    margin = _Z975 * float(np.sqrt(np.square(pull).sum() * len(names) / max(len(names) - 1, 1)))
    mean = float(gap.mean())
    return Shift(float(first.mean()), float(second.mean()), mean - margin, mean + margin)


def paired_performance(
    first: Floats, second: Floats, outcomes: Floats, patients: NDArray[Any], task: str = "classification"
) -> dict[str, Shift]:
    """What two predictions of the same stays are worth, with 95 % intervals of the difference: patients are redrawn."""
    of = classification_scores if task == "classification" else regression_scores
    everyone, _ = _resampled(np.ones(len(outcomes), dtype=bool), patients)
    weights = np.concatenate([np.ones((1, len(outcomes))), everyone])
    before, now = of(first, outcomes, weights), of(second, outcomes, weights)
    found = {}
    for name in before:
        with np.errstate(invalid="ignore"):  # without a case, or without another stay, there is no score
            gaps = now[name] - before[name]
        if not np.isfinite(gaps[0]):
            continue
        low, high = np.nanquantile(gaps[1:], [0.025, 0.975])
        found[name] = Shift(float(before[name][0]), float(now[name][0]), float(low), float(high))
    return found


def staged_prediction_test(scores: Floats, draws: Permutations, **options: Any) -> PredictionTest:
    """The test with a few permutations, and with all of them if that leaves the matter open."""
    test = prediction_test(scores, draws.few, draws.patients, **options)
    return test if test.p_value > SETTLED else prediction_test(scores, draws.all, draws.patients, **options)


def _mean_shifts(values: Floats, current: Bools, patients: NDArray[Any]) -> list[Shift]:
    before, now = values[~current].mean(axis=0), values[current].mean(axis=0)
    margin = _Z975 * standard_error(values, current, patients)
    gap = now - before
    return [Shift(*map(float, row)) for row in zip(before, now, gap - margin, gap + margin, strict=True)]


def _performance(
    scores: Floats, outcomes: Floats | None, labels: Labels, patients: NDArray[Any], task: str
) -> tuple[dict[str, Shift], tuple[int, int]]:
    """Shifts of what the predictions are worth, a family of its own, and how many outcomes are known."""
    if outcomes is None:
        return {}, (0, 0)
    known = np.isfinite(outcomes)
    current = labels[0, known] > 0
    y, labelled = outcomes[known], (int((~current).sum()), int(current.sum()))
    if task == "classification":
        if not set(np.unique(y).tolist()) <= {0.0, 1.0}:
            return {}, labelled
        counts = [int((y[window] == kind).sum()) for window in (current, ~current) for kind in (0.0, 1.0)]
    else:
        counts = list(labelled)
    if min(counts) < _LEAST:
        return {}, labelled
    of = classification_scores if task == "classification" else regression_scores

    def gaps(now: NDArray[Any], before: NDArray[Any]) -> tuple[Scores, Scores, Floats]:
        first, second = of(scores[known], y, before), of(scores[known], y, now)
        return first, second, np.stack([second[name] - first[name] for name in first], axis=1)

    drawn = labels[:, known]
    first, second, statistics = gaps(drawn, 1 - drawn)
    _, _, again = gaps(*_resampled(current, patients[known]))
    low, high = np.nanquantile(again, [0.025, 0.975], axis=0)
    if task == "classification":
        statistics = np.column_stack([statistics, _surprises(scores[known], y, drawn)])
    p = step_down(standardized(np.nan_to_num(np.abs(statistics))))
    shifts = {
        name: Shift(float(first[name][0]), float(second[name][0]), float(low[i]), float(high[i]), float(p[i]))
        for i, name in enumerate(first)
    }
    if task == "classification":
        found = shifts["calibration"]
        shifts["calibration"] = replace(found, p_value=min(found.p_value, float(p[-1])))
    return shifts, labelled


def _surprises(scores: Floats, outcomes: Floats, labels: Labels) -> Floats:
    """(B,) change of the mean surprise; a permutation may leave one window without a known outcome."""
    some = np.clip(labels.sum(axis=1, dtype=np.int64), 1, labels.shape[1] - 1)
    values = surprise(scores, outcomes)
    ahead = np.concatenate([labels[rows].astype(np.float64) @ values for rows in in_chunks(labels)])
    return np.asarray(ahead / some - (values.sum() - ahead) / (labels.shape[1] - some))


def _resampled(current: Bools, patients: NDArray[Any]) -> tuple[Floats, Floats]:
    """(B, n) weights of the current and of the reference window when whole patients are drawn with replacement."""
    names, code = np.unique(patients, return_inverse=True)
    rng = np.random.default_rng(0xB007)
    by_patient = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_BOOTSTRAPS)
    drawn = by_patient[:, code].astype(np.float64)
    return drawn * current, drawn * ~current


def _distances(column: Floats, labels: Labels) -> Floats:
    """(B,) largest gap between the two empirical distribution functions, for each row of labels."""
    order = np.argsort(column, kind="stable")
    ranked = column[order]
    last = np.append(ranked[1:] != ranked[:-1], True)  # ties: both functions are compared after the last
    found = np.empty(len(labels))
    for rows in in_chunks(labels):
        part = labels[rows][:, order]
        now = np.cumsum(part, axis=1, dtype=np.float32)
        total = now[:, -1:]
        before = np.arange(1, len(column) + 1, dtype=np.float32) - now
        gap = now / np.maximum(total, 1) - before / np.maximum(len(column) - total, 1)
        found[rows] = np.abs(gap[:, last]).max(axis=1)
    return found
