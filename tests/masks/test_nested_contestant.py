"""The nested fit: one score a cell, fitted by descent."""

import numpy as np
import torch
from departures import departure_of
from torch import Tensor
from white_boxes import spikes, two_classes

from dynamask_mlflow.masks.contest import contest_shares, hold
from dynamask_mlflow.masks.nested_contestant import STEPS, nested_scores
from dynamask_mlflow.masks.ranking import Order
from dynamask_mlflow.metrics import auprc


def test_it_finds_the_cells_from_scores_that_know_nothing() -> None:
    nature = spikes()
    departures = departure_of(nature.model, nature.x).by_strength()
    start = torch.ones_like(nature.x)
    scores = nested_scores(departures, start, lambda: None)
    assert auprc(scores.numpy(), nature.truth).min() > 0.9
    before, after = (hold(contest_shares(departures[0], Order.of(each))) for each in (start, scores))
    assert (after > before + 0.2).all()


def test_each_step_is_told_to_the_progress_bar() -> None:
    ticks: list[None] = []
    nature = spikes(2)
    nested_scores(
        departure_of(nature.model, nature.x).by_strength(), torch.ones_like(nature.x), lambda: ticks.append(None)
    )
    assert len(ticks) == STEPS


def test_cells_that_do_not_exist_gain_nothing() -> None:
    def model(x: Tensor) -> Tensor:
        return two_classes(x[:, 3:6, 1].sum(1) - 2)

    x = torch.zeros(3, 16, 2)
    x[:, 3:6, 1] = 2.0
    exists = torch.ones_like(x, dtype=torch.bool)
    exists[:, 10:] = False
    departures = departure_of(model, x, exists=exists, operators=("zero",)).by_strength()
    scores = nested_scores(departures, torch.ones_like(x), lambda: None)
    best = Order.of(scores, exists).first(3) > 0.5
    np.testing.assert_array_equal(best.numpy(), x.numpy() == 2)
