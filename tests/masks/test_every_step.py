"""Answers at every step, and `deletion=True`: nested masks fitted by descent."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from networks import sequences
from torch import Tensor
from white_boxes import classes_at_every_step, faint_cells

from dynamask_mlflow import explain
from dynamask_mlflow.masks import every_step
from dynamask_mlflow.masks.every_step import FAST, USUAL
from dynamask_mlflow.metrics import auprc

SALIENT = (slice(3, 7), 1)


def white_box(x: Tensor) -> Tensor:
    """Reads channel 1 at steps 3 to 6 only; one value a step."""
    weight = torch.zeros_like(x[0])
    weight[SALIENT] = 1
    return (x.square() * weight).sum(-1)


def truth(x: Tensor) -> np.ndarray:
    cells = np.zeros(x.shape, dtype=bool)
    cells[(slice(None), *SALIENT)] = True
    return cells


@pytest.mark.parametrize("deletion", [False, True])
def test_exactly_the_cells_that_the_model_reads_are_salient(deletion: bool) -> None:
    x = sequences(4, 20, 6)
    masks = explain(white_box, x, task="regression", deletion=deletion, progress=False)
    found = masks.masks > 0.5
    # Values near the mean may be missed by deletion: removing them changes next to nothing.
    assert (found & ~truth(x)).sum() == 0
    assert (found & truth(x)).sum() >= (0.6 if deletion else 0.95) * truth(x).sum()
    assert masks.scores[truth(x)].min() > masks.scores[~truth(x)].max()
    assert masks.diagnostics["converged"].all()


def test_the_automatic_area_has_no_room_for_cells_that_the_model_does_not_read() -> None:
    masks = explain(
        lambda v: torch.cat([v[:, :7, 1], 0 * v[:, 7:, 1]], 1),
        sequences(6, 20, 5),
        task="regression",
        steps=20,
        progress=False,
    )
    unread = np.ones(masks.masks.shape[1:], dtype=bool)
    unread[:7, 1] = False
    assert (masks.masks[:, unread] == 0).all()
    assert masks.masks.any((1, 2)).all()


@pytest.mark.parametrize("scale", [1e-2, 1e2])
def test_the_unit_of_the_answer_changes_nothing(scale: float) -> None:
    nature = faint_cells()
    x = nature.x[:3]
    one = explain(nature.model, x, task="regression", steps=20, progress=False)
    other = explain(lambda z: scale * nature.model(z), x, task="regression", steps=20, progress=False)
    np.testing.assert_array_equal(one.area, other.area)
    np.testing.assert_allclose(one.masks, other.masks, atol=1e-2)


def test_classes_rest_on_what_decides_them_and_not_on_what_moves_their_logits() -> None:
    nature = classes_at_every_step()
    masks = nature.explained()
    assert auprc(masks.scores, nature.truth).min() > 0.95
    assert masks.masks[:, :, 0].sum() > 0.75 * masks.masks.sum()


def test_the_descent_finds_more_than_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    nature = faint_cells()
    fitted = auprc(nature.explained().scores, nature.truth).mean()
    monkeypatch.setattr(every_step, "USUAL", replace(USUAL, steps=1))
    assert fitted > auprc(nature.explained().scores, nature.truth).mean() + 0.1


def test_in_a_hurry_fewer_steps_are_taken() -> None:
    assert FAST.steps < USUAL.steps
    x = sequences(3, 20, 6)
    masks = explain(white_box, x, task="regression", fast=True, progress=False)
    assert ((masks.masks > 0.5) & ~truth(x)).sum() == 0
    assert masks.scores[truth(x)].min() > masks.scores[~truth(x)].max()


def test_errors_do_not_explode_where_the_empty_mask_has_none() -> None:
    masks = explain(lambda x: 0 * x[..., 0] + 3, sequences(2), task="regression", steps=3, progress=False)
    assert (masks.errors == 0).all()
    assert (masks.masks == 0).all()
    assert masks.diagnostics["constant_prediction"].all()
    faint = explain(lambda x: 3 + 1e-7 * x[..., 0], sequences(2), task="regression", steps=3, progress=False)
    assert ((faint.errors >= 0) & (faint.errors <= 1)).all()


def test_padding_takes_no_part() -> None:
    x = sequences(3, 20, 6)
    padded = x.clone()
    padded[:, 12:] = 1e3
    masks = explain(white_box, padded, task="regression", lengths=[12] * 3, steps=40, progress=False)
    assert (masks.masks[:, 12:] == 0).all()
    assert ((masks.masks > 0.5) & ~truth(x)).sum() == 0


def test_methods_without_a_sign_answer_by_their_scores() -> None:
    masks = explain(lambda x: x[:, :, 0], sequences(), task="regression", steps=4, progress=False)
    assert masks.attributions is None
    assert masks.deletion_ranking is masks.scores
    assert masks.change_ranking is masks.scores
