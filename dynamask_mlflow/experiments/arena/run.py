"""Run methods over rows and seeds of the arena, and sum their outcomes up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.experiments.arena.outcome import BEST_IG, OURS, Outcome, outcome
from dynamask_mlflow.experiments.arena.rows import ROWS, Row, find_row
from dynamask_mlflow.experiments.arena.scoring import RULES, Bins, pooled
from dynamask_mlflow.metrics import rank_correlation

DEFAULT_METHODS = (OURS, BEST_IG, "ig", "ig_smooth", "gs", "random")
INSTANCES = 24


@dataclass(frozen=True, eq=False)
class Results:
    """Outcomes by row, method and seed. For "ig-best" a row has the reading whose mean AUPRC over the seeds is best."""

    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    methods: tuple[str, ...]
    instances: int
    outcomes: dict[tuple[str, str], list[Outcome]]
    readings: dict[str, str]

    def values(self, row: str, method: str, metric: str) -> NDArray[np.float64]:
        """The metric of every instance of every seed, nan where it is undefined."""
        found = [np.atleast_1d(o[metric]) for o in self.outcomes.get((row, method), ()) if metric in o]
        return np.concatenate(found).astype(np.float64) if found else np.full(1, np.nan)

    def mean(self, row: str, method: str, metric: str) -> float:
        values = self.values(row, method, metric)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    def over_rows(self, rows: Iterable[Row], method: str, metric: str) -> float:
        """The mean over rows: every row counts the same. Rows on which the method failed are left out."""
        values = np.array([self.mean(row.name, method, metric) for row in rows])
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    def by_one_rule(self, method: str) -> tuple[str, dict[str, float]]:
        """The rule of `scoring.RULES` whose masks have the best mean F1 over all rows, and its F1 by row."""
        outcomes = {row.name: self.outcomes.get((row.name, method), []) for row in self.rows}
        curves = {
            row: np.mean([o["rule_f1"] for o in many], axis=0)
            for row, many in outcomes.items()
            if many and all("rule_f1" in o for o in many)
        }
        if not curves:
            return "-", {}
        best = int(np.mean(list(curves.values()), axis=0).argmax())
        kind, value = RULES[best]
        return f"{kind} {value:g}", {row: float(curve[best]) for row, curve in curves.items()}

    def cut_brier(self, rows: Iterable[Row], method: str) -> float:
        """The mean over rows of the Brier score of the mask of whole cells: 1 + (cells - 2 hits) / salient cells.

        The number of salient cells is told by precision and recall. A mask without a hit counts 1, the least it has.
        """
        means = []
        for row in rows:
            size, precision, recall = (self.values(row.name, method, name) for name in ("size", "precision", "recall"))
            hits = size * precision
            score = 1 + np.where(hits > 0, (size - 2 * hits) * recall / np.maximum(hits, 1e-12), 0)
            means.append(float(np.nanmean(score)) if np.isfinite(score).any() else float("nan"))
        return float(np.nanmean(means)) if np.isfinite(means).any() else float("nan")

    def bins(self, rows: Iterable[Row], method: str) -> Bins | None:
        parts = [
            Bins(*(np.asarray(o["bins"][name], dtype=np.float64) for name in ("count", "total", "salient")))
            for row in rows
            for o in self.outcomes.get((row.name, method), ())
            if "bins" in o
        ]
        return pooled(parts) if parts else None

    def doubt_correlation(self, rows: Iterable[Row], method: str) -> float:
        """Rank correlation over instances of entropy / sum of the coefficients with 1 - F1."""
        pairs = [(self.values(r.name, method, "doubt"), 1 - self.values(r.name, method, "f1")) for r in rows]
        pairs = [(a, b) for a, b in pairs if np.isfinite(a).all() and np.isfinite(b).all()]
        if not pairs:
            return float("nan")
        return rank_correlation(np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs]))

    def failures(self) -> list[tuple[str, str, str]]:
        """(row, method, reason), each once."""
        found = {
            (row, method): str(o["failure"])
            for (row, method), many in self.outcomes.items()
            for o in many
            if "failure" in o
        }
        return [(row, method, reason) for (row, method), reason in found.items()]


def run_arena(
    rows: Sequence[str] | None = None,
    methods: Sequence[str] = DEFAULT_METHODS,
    seeds: Sequence[int] = (0,),
    instances: int = INSTANCES,
    report: Callable[[str], None] = lambda line: None,
) -> Results:
    """Every method on every row and seed; what the cache holds is not computed again.

    Args:
        rows: names of rows, or of tasks for all their rows; None for all.
    """
    chosen = chosen_rows(rows)
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    readings: dict[str, str] = {}
    for row in chosen:
        for method in methods:
            found = []
            for seed in seeds:
                found.append(outcome(row.name, seed, instances, method))
            if method == BEST_IG:
                found, readings[row.name] = _best_reading(found)
            outcomes[row.name, method] = found
            score = [np.mean(o["auprc"]) for o in found if "auprc" in o]
            report(f"{row.name}, {method}: " + (f"AUPRC {np.mean(score):.3f}" if score else found[0]["failure"]))
    return Results(chosen, tuple(seeds), tuple(methods), instances, outcomes, readings)


def chosen_rows(names: Sequence[str] | None) -> tuple[Row, ...]:
    """Rows by their own names or by the names of tasks or families, in the order of ROWS."""
    if names is None:
        return ROWS
    known = {name for row in ROWS for name in (row.name, row.task, row.family)}
    for name in names:
        if name not in known:
            find_row(name)  # its error lists the rows
    return tuple(row for row in ROWS if {row.name, row.task, row.family} & set(names))


def _best_reading(found: list[Any]) -> tuple[list[Outcome], str]:
    if any("failure" in o for o in found):
        return [o for o in found if "failure" in o], "-"
    best = max(found[0], key=lambda reading: float(np.mean([np.nanmean(o[reading]["auprc"]) for o in found])))
    return [o[best] for o in found], best
