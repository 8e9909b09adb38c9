"""The prediction arm: did predicted risks, classes or values move, and do they still tell the outcome?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.statistics.effect import Z975, by_patient, standard_error
from dynamask_mlflow.audit.statistics.marginals import Bools, Floats, Labels
from dynamask_mlflow.audit.statistics.multiplicity import ranked, scaled, standardized, step_down
from dynamask_mlflow.audit.statistics.performance import (
    Scores,
    classification_scores,
    regression_scores,
    weighted_residuals,
)
from dynamask_mlflow.audit.statistics.permutation import (
    Permutations,
    in_chunks,
    mean_differences,
    mean_gaps,
)

_LEAST = 10  # cases, and other stays, of each window for an AUROC
_BOOTSTRAPS = 400


@dataclass(frozen=True)
class Shift:
    """One number of both windows.

    Attributes:
        reference, current: its values. low, high: 95 % confidence interval of their difference, with patients as units.
        p_value: by permutation of patients, adjusted (step-down) over the predictions' numbers, or over those of what
            they are worth; calibration is a family of its own.
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
        performance: "auroc", "auprc", "brier", "calibration" (see `calibration_test`); "error" for values.
        labelled: stays with a known outcome in the reference and in the current window. stays: those with a prediction.
    """

    mean: Shift
    spread: float
    distribution: Shift
    above: Mapping[float, Shift] = field(default_factory=dict)
    classes: Mapping[int, Shift] = field(default_factory=dict)
    performance: Mapping[str, Shift] = field(default_factory=dict)
    labelled: tuple[int, int] = (0, 0)
    stays: tuple[int, int] = (0, 0)

    @property
    def p_value(self) -> float:
        """The smallest of all families."""
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
    more: dict[str, Any] = {"outcomes": outcomes, "task": task}
    found = _tests(scores, labels, patients, thresholds=thresholds, classes=classes, **more)
    return _with_intervals(found, scores, labels[0] > 0, patients, **more)


def _tests(
    scores: Floats,
    labels: Labels,
    patients: NDArray[Any],
    *,
    thresholds: Sequence[float] = (),
    classes: Floats | None = None,
    outcomes: Floats | None = None,
    task: str = "classification",
) -> PredictionTest:
    """`prediction_test` without the intervals of what the predictions are worth, which cost more than their tests."""
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
    performance, labelled = _performance(scores, outcomes, labels, task)
    calibration = None if outcomes is None else calibration_test(scores, outcomes, labels, patients, task)
    if calibration is not None:
        performance["calibration"] = calibration
    cut = 1 + len(thresholds)
    return PredictionTest(
        mean=means[0],
        spread=float(scores[~current].std()),
        distribution=Shift(0.0, float(distances[0, 0]), 0.0, 1.0, float(p[-1])),
        above=dict(zip(thresholds, means[1:cut], strict=True)),
        classes=dict(zip(kinds, means[cut:], strict=True)),
        performance=performance,
        labelled=labelled,
        stays=(int((~current).sum()), int(current.sum())),
    )


def calibration_test(
    scores: Floats, outcomes: Floats, labels: Labels, patients: NDArray[Any], task: str = "classification"
) -> Shift | None:
    """Observed minus predicted of both windows; None where too few outcomes are known.

    The p-value is that of the largest of three statistics, see `weighted_residuals`, by permutation of patients.

    >>> from dynamask_mlflow.audit.statistics import permuted_labels
    >>> rng = np.random.default_rng(0)
    >>> risk, patients = rng.uniform(0.05, 0.5, 900), np.arange(900)
    >>> died = (rng.random(900) < risk + 0.15 * (patients >= 500)).astype(float)
    >>> labels = permuted_labels(patients >= 500, patients, 999, 0)
    >>> found = calibration_test(risk, died, labels, patients)
    >>> found.p_value <= 0.001, found.low < 0.15 < found.high
    (True, True)
    """
    known = np.isfinite(outcomes)
    current, y = labels[0, known] > 0, outcomes[known]
    if not _enough(y, current, task):
        return None
    residuals = (y - scores[known])[:, None]
    values = weighted_residuals(scores[known], y) if task == "classification" else residuals
    gaps = scaled(mean_gaps(values, labels[:, known]))
    shift = _mean_shifts(residuals, current, patients[known])[0]
    return replace(shift, p_value=float(step_down(gaps).min()))


def staged_calibration_test(scores: Floats, outcomes: Floats, draws: Permutations, task: str) -> Shift | None:
    """`calibration_test` by as many permutations as it needs."""
    return draws.staged(
        lambda labels: calibration_test(scores, outcomes, labels, draws.patients, task),
        lambda test: 1.0 if test is None else test.p_value,
    )


def paired_shift(first: Floats, second: Floats, patients: NDArray[Any]) -> Shift:
    """Means of two predictions for the same stays, with the 95 % interval of their difference by patient."""
    gap = second - first
    pull = by_patient((gap - gap.mean())[:, None] / len(gap), patients)
    margin = Z975 * float(np.sqrt(np.square(pull).sum() * len(pull) / max(len(pull) - 1, 1)))
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


def staged_prediction_test(
    scores: Floats, draws: Permutations, *, intervals: bool = True, **options: Any
) -> PredictionTest:
    """`prediction_test` by as many permutations as it needs.

    Args:
        intervals: False leaves out those of what the predictions are worth. options: of `prediction_test`.
    """
    test = draws.staged(lambda labels: _tests(scores, labels, draws.patients, **options), lambda found: found.p_value)
    if not intervals:
        return test
    more = {name: options[name] for name in ("outcomes", "task") if name in options}
    return _with_intervals(test, scores, draws.current, draws.patients, **more)


def _with_intervals(
    test: PredictionTest,
    scores: Floats,
    current: Bools,
    patients: NDArray[Any],
    outcomes: Floats | None = None,
    task: str = "classification",
) -> PredictionTest:
    """With 95 % intervals of what the predictions are worth: patients are redrawn."""
    names = [name for name in test.performance if name != "calibration"]
    if not names or outcomes is None:
        return test
    known = np.isfinite(outcomes)
    of = classification_scores if task == "classification" else regression_scores
    now, before = (of(scores[known], outcomes[known], each) for each in _resampled(current[known], patients[known]))
    again = np.stack([now[name] - before[name] for name in names], axis=1)
    low, high = np.nanquantile(again, [0.025, 0.975], axis=0)
    bounded = {
        name: replace(test.performance[name], low=float(low[i]), high=float(high[i])) for i, name in enumerate(names)
    }
    return replace(test, performance={**test.performance, **bounded})


def _mean_shifts(values: Floats, current: Bools, patients: NDArray[Any]) -> list[Shift]:
    before, now = values[~current].mean(axis=0), values[current].mean(axis=0)
    margin = Z975 * standard_error(values, current, patients)
    gap = now - before
    return [Shift(*map(float, row)) for row in zip(before, now, gap - margin, gap + margin, strict=True)]


def _performance(
    scores: Floats, outcomes: Floats | None, labels: Labels, task: str
) -> tuple[dict[str, Shift], tuple[int, int]]:
    """Shifts of what the predictions are worth, a family of its own, and how many outcomes are known."""
    if outcomes is None:
        return {}, (0, 0)
    known = np.isfinite(outcomes)
    current = labels[0, known] > 0
    y, labelled = outcomes[known], (int((~current).sum()), int(current.sum()))
    if not _enough(y, current, task):
        return {}, labelled
    of = classification_scores if task == "classification" else regression_scores

    def gaps(now: NDArray[Any], before: NDArray[Any]) -> tuple[Scores, Scores, Floats]:
        first, second = of(scores[known], y, before), of(scores[known], y, now)
        names = [name for name in first if name != "calibration"]
        return first, second, np.stack([second[name] - first[name] for name in names], axis=1)

    drawn = labels[:, known]
    first, second, statistics = gaps(drawn, 1 - drawn)
    p = step_down(standardized(np.nan_to_num(np.abs(statistics))))
    names = [name for name in first if name != "calibration"]
    shifts = {
        name: Shift(float(first[name][0]), float(second[name][0]), np.nan, np.nan, float(p[i]))
        for i, name in enumerate(names)
    }
    return shifts, labelled


def _enough(outcomes: Floats, current: Bools, task: str) -> bool:
    """Whether both windows have so many known outcomes, and so many of either kind, that they can be compared."""
    if task != "classification":
        return min(int(current.sum()), int((~current).sum())) >= _LEAST
    if not set(np.unique(outcomes).tolist()) <= {0.0, 1.0}:
        return False
    return min(int((outcomes[window] == kind).sum()) for window in (current, ~current) for kind in (0.0, 1.0)) >= _LEAST


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
