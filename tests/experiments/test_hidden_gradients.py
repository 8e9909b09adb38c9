"""What hiding the gradients costs: which cells CE removes."""

from dataclasses import replace

import numpy as np
import torch

from dynamask_mlflow.experiments.arena.hidden_gradients import ce_by_deletion, explained_with_scores
from dynamask_mlflow.experiments.protocol import Case


def logits(x: torch.Tensor) -> torch.Tensor:
    margin = x[:, 3, 0] + x[:, 9, 1]
    return torch.stack([-margin, margin], 1)


def test_ce_asks_for_the_cells_that_cost_the_answer_most() -> None:
    """A cell against the answer is salient, but removing it raises the answer: CE does not remove it first."""
    x = np.zeros((2, 12, 2), dtype=np.float32)
    x[:, 3, 0], x[:, 9, 1] = 1.0, -0.9
    case = Case(logits, x, np.abs(x) > 0, "classification")
    found, _ = explained_with_scores(case, logits, 0, 300)
    against_first = replace(found.main.masks, scores=np.where(x < 0, 2, x).astype(np.float32), area=np.full(2, 1 / 24))
    runs = {"own": replace(found.main, masks=against_first)}
    plain = np.log(1 + np.exp(-2 * 0.1))
    assert ce_by_deletion(case, replace(found, runs=runs)) > plain + 0.5
