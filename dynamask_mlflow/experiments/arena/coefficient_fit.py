"""The fit of the coefficients' weights: a logistic regression of planted truth on the features of each cell.

Rows that are not held out and choosing seeds alone take part. Every row counts the same: a cell's weight is one over
the number of salient cells of its row and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dynamask_mlflow.experiments.arena.case import arena_case
from dynamask_mlflow.experiments.arena.outcome import OURS, existing, explained
from dynamask_mlflow.experiments.arena.rows import ROWS, Row
from dynamask_mlflow.experiments.protocol import Case
from dynamask_mlflow.masks import forward_answer, sequence_answer
from dynamask_mlflow.masks.coefficients import FORWARD_WEIGHTS, WEIGHTS, CoefficientWeights, cell_features, coefficients


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells that the model reads: their features (n, F), whether they are salient (n,), what they count (n,)."""

    features: NDArray[np.float64]
    salient: NDArray[np.bool_]
    weights: NDArray[np.float64]


def open_rows() -> list[Row]:
    """Rows that may be chosen on, with one answer a sequence."""
    return [row for row in ROWS if not row.held_out and row.family != "per-step"]


def fit_coefficients(
    seeds: Sequence[int],
    instances: int,
    rows: Sequence[Row] | None = None,
    report: Callable[[str], None] = lambda line: None,
    *,
    method: str = OURS,
) -> CoefficientWeights:
    """Explain the rows' sequences, and fit the weights to all their cells.

    Args:
        method: "ours", or "forward" for the weights of models without gradients.
    """
    parts = []
    for row in rows or open_rows():
        for seed in seeds:
            case = arena_case(row.name, seed, instances)
            parts.append(cells_of(case, seed, method))
            report(f"{row.name}, seed {seed}: {len(parts[-1].salient)} cells")
    return logistic_regression(parts)


def cells_of(case: Case, seed: int, method: str = OURS) -> Cells:
    """The cells of a case, as the method sees them before it gives them coefficients."""
    with _recorded(method) as found:
        explained(case, method, seed)
    features = np.concatenate([values for values, _ in found], axis=1)[:, : len(case.x)]
    read = ~np.concatenate([unread for _, unread in found])[: len(case.x)] & existing(case)
    assert case.truth is not None
    truth = np.broadcast_to(case.truth, case.x.shape)
    # Salient cells that count as unread take part in the number: without them a row that misses many weighs too much.
    number = max(1, int((truth & existing(case)).sum()))
    return Cells(features[:, read].T, truth[read], np.full(int(read.sum()), 1 / number))


def logistic_regression(parts: Sequence[Cells]) -> CoefficientWeights:
    """Without a penalty, to three decimals."""
    from sklearn.linear_model import LogisticRegression

    features, salient, weights = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("features", "salient", "weights")
    )
    if salient.all() or not salient.any():
        raise ValueError("Expected salient cells and others to fit coefficients to, but got one kind alone.")
    model = LogisticRegression(C=1e9, max_iter=1000).fit(features, salient, sample_weight=weights / weights.mean())
    found = [round(float(value), 3) for value in (*model.intercept_, *model.coef_[0])]
    return CoefficientWeights(*found)


def weights_table(fitted: CoefficientWeights, method: str = OURS) -> list[list[str]]:
    """Fitted and shipped weights."""
    shipped = asdict(WEIGHTS if method == OURS else FORWARD_WEIGHTS)
    body = [[name, f"{value:.3f}", f"{shipped[name]:.3f}"] for name, value in asdict(fitted).items()]
    return [["weight", "fitted", "shipped"], *body]


@contextmanager
def _recorded(method: str) -> Iterator[list[tuple[NDArray[Any], NDArray[Any]]]]:
    """Record the features and the unread cells of every batch that is explained."""
    found: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def record(*args: Any) -> Tensor:
        features, unread = cell_features(*args[:4]), args[4]
        found.append((features.numpy().astype(np.float64), unread.numpy()))
        return coefficients(*args)

    with patch.object(sequence_answer if method == OURS else forward_answer, "coefficients", record):
        yield found
