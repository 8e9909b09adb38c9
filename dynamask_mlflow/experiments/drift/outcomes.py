"""How soon a change of the outcome is found, and how soon it could be: nothing is explained, predictions are enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dynamask_mlflow.audit.statistics import Floats, Permutations, Shift, recalibrated, staged_calibration_test
from dynamask_mlflow.experiments.drift.data import Case, open_case

LABELLED = 400  # stays of a window with a known outcome
POINTS = 0.05
REFERENCES = (500, 4000)
_MONTHS = 3
_STEP, _GRID = 0.0005, 1 << 18  # of the log likelihood ratio of a window


@dataclass(frozen=True)
class OutcomeRow:
    """One change of the outcome.

    Attributes:
        reference: stays of the reference with a known outcome; a window has `LABELLED`.
        first, second, third: found by the first window, within two, within three.
        bound: what the best possible test of one window finds, if it knows the change and every risk in the reference
            without error (Neyman and Pearson), at the same level. all_alpha: the same at the level of a whole audit.
    """

    source: str
    change: str
    reference: int
    first: float
    second: float
    third: float
    bound: float
    all_alpha: float
    series: int


def added(risks: Floats, points: float) -> Floats:
    """As if so many points were added to every stay without the outcome alike: q + (1 - q) r.

    >>> added(np.array([0.1, 0.3]), 0.04).round(3).tolist()
    [0.145, 0.335]
    """
    return risks + (1 - risks) * points / float(np.mean(1 - risks))


def multiplied(risks: Floats, points: float) -> Floats:
    """All odds are multiplied alike, so that the mean risk rises by so many points.

    >>> float(multiplied(np.array([0.1, 0.3]), 0.04).mean().round(3))
    0.24
    """
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    def excess(size: float) -> float:
        return float(np.mean(expit(logit(risks) + size)) - np.mean(risks)) - points

    return np.asarray(expit(logit(risks) + brentq(excess, 0.0, 5.0)))


CHANGES: dict[str, Callable[[Floats, float], Floats]] = {
    "nothing": lambda risks, _: risks,
    "5 points more, in all stays alike": added,
    "5 points more, all odds multiplied alike": multiplied,
}


def run_outcomes(
    sources: Sequence[str], series: int = 60, report: Callable[[str], None] = lambda _: None
) -> list[OutcomeRow]:
    """All rows. Stays and predictions are real; outcomes are drawn from the risks that were observed for them."""
    rows = []
    for source in sources:
        case = open_case(source, False, False)
        scores = predicted(case)
        risks = recalibrated(scores, case.pool.labels.astype(np.float64))
        for what, change in CHANGES.items():
            after = change(risks, POINTS)
            level = case.config.levels["calibration"]
            whole = case.config.alpha / case.config.audits_per_year
            bounds = best_power(risks, after, (level, whole)) if what != "nothing" else (level, whole)
            for reference in REFERENCES:
                name = f"outcomes {what} {reference} {series}"
                found = case.cached(name, partial(_series, case, scores, (risks, after), reference, series))
                first, second, third = (float(np.mean([any(each[:n]) for each in found])) for n in (1, 2, 3))
                rows.append(OutcomeRow(source, what, reference, first, second, third, bounds[0], bounds[1], series))
                report(f"{rows[-1]}")
    return rows


def predicted(case: Case) -> Floats:
    """(n,) predicted risks of the stays."""
    import torch

    with torch.no_grad():
        logits = case.network(torch.as_tensor(case.pool.x, dtype=torch.float32))
    return np.asarray(torch.softmax(logits, dim=-1)[:, 1], dtype=np.float64)


def best_power(risks: Floats, after: Floats, levels: Sequence[float]) -> tuple[float, ...]:
    """How often the likelihood ratio of a window of `LABELLED` stays finds that risks became `after`.

    A two-sided test at a level spends half of it on either direction. The distribution of the ratio is calculated, by
    Fourier transform on a fine grid: draws are too few at levels like these.

    >>> risks = np.full(100, 0.15)
    >>> round(best_power(risks, added(risks, 0.05), [0.05])[0], 1)
    0.8
    """
    weights = np.log(after / risks), np.log((1 - after) / (1 - risks))

    def distribution(truth: Floats) -> Floats:
        one: Floats = np.zeros(_GRID)
        for weight, chance in zip(weights, (truth, 1 - truth), strict=True):
            np.add.at(one, np.round(weight / _STEP).astype(np.intp) % _GRID, chance / len(truth))
        return np.fft.fftshift(np.fft.ifft(np.fft.fft(one) ** LABELLED).real)

    null, other = (np.cumsum(distribution(truth)) for truth in (risks, after))
    return tuple(float(1 - other[np.searchsorted(null, 1 - level / 2)]) for level in levels)


def _series(case: Case, scores: Floats, truths: tuple[Floats, Floats], reference: int, series: int) -> list[list[bool]]:
    return [_found(case, scores, truths, reference, number) for number in range(series)]


def _found(case: Case, scores: Floats, truths: tuple[Floats, Floats], reference: int, number: int) -> list[bool]:
    """Whether each of the first windows warns: by its own outcomes, and the last also by those of all of them."""
    rng = np.random.default_rng([29, number])

    def draw(truth: Floats, count: int) -> tuple[Floats, Floats]:
        stays = rng.integers(0, len(scores), count)
        return scores[stays], (rng.random(count) < truth[stays]).astype(np.float64)

    before, windows = draw(truths[0], reference), [draw(truths[1], LABELLED) for _ in range(_MONTHS)]
    found = [_warns(case, _compare(case, [before, now], number), "calibration") for now in windows]
    found[-1] |= _warns(case, _compare(case, [before, *windows], number), "calibration_trend")
    return found


def _compare(case: Case, parts: Sequence[tuple[Floats, Floats]], seed: int) -> Shift | None:
    risk, outcomes = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    patients = np.arange(len(risk))
    draws = Permutations(patients >= len(parts[0][0]), patients, case.config.permutations, seed)
    return staged_calibration_test(risk, outcomes, draws, "classification")


def _warns(case: Case, shift: Shift | None, level: str) -> bool:
    if shift is None:
        return False
    return shift.p_value <= case.config.levels[level] and abs(shift.difference) >= case.config.performance_effect


def as_table(rows: Sequence[OutcomeRow]) -> list[list[str]]:
    """The rows, with a head."""
    head = ["data", "outcomes", "reference", "first window", "within two", "within three"]
    head += ["best possible, one window", "with all of an audit's alpha", "series"]
    body = [
        [
            row.source,
            row.change,
            f"{row.reference:,}",
            *(f"{value:.2f}" for value in (row.first, row.second, row.third)),
            *((f"{row.bound:.2f}", f"{row.all_alpha:.2f}") if row.change != "nothing" else ("-", "-")),
            str(row.series),
        ]
        for row in rows
    ]
    return [head, *body]
