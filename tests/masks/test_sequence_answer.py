"""The default for one number of the answer, end to end on models that read known cells."""

import numpy as np
import pytest
import torch
from networks import Recurrent, sequences, with_seed
from torch import Tensor
from white_boxes import SEGMENT, cells, gaussian, high_segment, latched, spikes, two_classes

from dynamask_mlflow import explain


def sure_early(x: Tensor) -> Tensor:
    """Half of the segment suffices, and to lose a little more turns the answer."""
    return two_classes(4 * torch.tanh(8 * (x[:, SEGMENT, 2].mean(1) - 1.5)) + 0.02 * x[:, :, 1].mean(1))


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_latched_answer_is_traced_to_its_segment(task: str) -> None:
    def model(x: Tensor) -> Tensor:
        return latched(x) if task == "classification" else latched(x)[:, 1]

    x = high_segment()
    masks = explain(model, x, task=task, progress=False)
    truth = cells(x, SEGMENT, 2)
    assert (masks.binary & truth).sum() / masks.binary.sum() > 0.8
    assert masks.scores[truth].min() > np.quantile(masks.scores[~truth], 0.95)


def test_a_net_that_is_sure_early_is_still_asked_for_the_whole_event() -> None:
    masks = explain(sure_early, high_segment(), progress=False)
    assert masks.binary[:, SEGMENT, 2].mean() > 0.8
    assert masks.binary[:, SEGMENT, 2].sum() > 0.8 * masks.binary.sum()


def test_cells_that_the_model_does_not_read_come_last_even_beside_those_it_reads() -> None:
    masks = explain(lambda v: v[:, -3:, 1].sum(1), gaussian(12, 10, 4, seed=3), task="regression", progress=False)
    read = np.zeros(masks.scores.shape, dtype=bool)
    read[:, -3:, 1] = True
    assert (np.where(read, masks.scores, 2).min((1, 2)) > np.where(read, -1, masks.scores).max((1, 2))).all()
    assert (masks.masks[~read] == 0).all()
    assert not masks.binary[~read].any()


def test_an_answer_that_the_baselines_get_as_well_is_still_explained() -> None:
    """A risk of nearly 0, whatever comes: what moved it a little is what is asked for."""
    x = 0.1 * gaussian(4, 12, 3)
    x[:, 3, 0] = 2.0
    masks = explain(lambda v: 4 * v[:, 3, 0] - 50, x, progress=False)
    assert not masks.diagnostics["constant_prediction"].any()
    assert (masks.direction == 1).all()
    assert masks.binary[:, 3, 0].all()
    assert (masks.binary.sum((1, 2)) == 1).all()


def test_the_error_falls_as_cells_are_added() -> None:
    masks = spikes().explained(areas=(0.01, 0.04, 0.5, 1.0))
    assert ((masks.errors >= 0) & (masks.errors <= 1)).all()
    assert (np.diff(masks.errors, axis=1) <= 1e-6).all()
    assert (masks.errors[:, 0] > 0.2).all()
    assert (masks.errors[:, -1] < 1e-9).all()


@pytest.mark.parametrize("area", [0.1, 0.02, "best", "extremal"])
def test_an_area_that_is_asked_for_is_that_of_the_whole_cells(area: float | str) -> None:
    nature = spikes()
    masks = nature.explained(area=area)
    usual = nature.explained()
    np.testing.assert_allclose(masks.masks, usual.masks)
    np.testing.assert_allclose(masks.area, masks.binary.mean((1, 2)), rtol=1e-5)
    if not isinstance(area, str):
        assert (masks.binary.sum((1, 2)) == round(area * masks.masks[0].size)).all()


def test_a_given_area_is_a_share_of_the_cells_that_exist() -> None:
    x = sequences(2, 20, 4)
    observed = np.zeros(x.shape, dtype=bool)
    observed[:, 10:] = True
    masks = explain(with_seed(Recurrent), x, observed=observed, area=0.2, progress=False)
    assert masks.binary.sum((1, 2)).tolist() == [8, 8]
    assert not masks.binary[~observed].any()
    assert (masks.masks[~observed] == 0).all()
    assert masks.area.tolist() == pytest.approx([0.2, 0.2])


def test_errors_and_areas_of_a_padded_sequence_are_those_of_the_sequence_itself() -> None:
    x = torch.zeros(2, 64, 2)
    x[:, 1:9, 0] = 1.0
    options = {"task": "regression", "operators": ["zero"], "area": "extremal", "epsilon": 0.2, "progress": False}

    def first_steps(z: Tensor) -> Tensor:
        return z[:, :16, 0].sum(1)

    padded = explain(first_steps, x, lengths=[16, 16], areas=(0.03125, 0.125, 0.5), **options)
    cut = explain(first_steps, x[:, :16], areas=(0.03125, 0.125, 0.5), **options)
    # Eight of the 32 cells count: one and four of them keep an eighth and a half, and sixteen cells keep everything.
    np.testing.assert_allclose(cut.errors, [[0.875**2, 0.25, 0.0]] * 2, atol=1e-5)
    np.testing.assert_allclose(padded.errors, cut.errors, atol=1e-5)
    np.testing.assert_allclose(padded.area, cut.area)
    np.testing.assert_array_equal(padded.binary[:, :16], cut.binary)


def test_the_empty_mask_is_empty_whatever_area_is_asked_for() -> None:
    masks = explain(lambda x: 0 * x.sum((1, 2)) + 1, sequences(), task="regression", area=0.3, progress=False)
    assert not masks.binary.any()
    assert (masks.area == 0).all()


def test_diagnostics_say_what_was_explained() -> None:
    nature = spikes()
    masks = nature.explained()
    found = masks.diagnostics
    np.testing.assert_allclose(found["answer"], nature.model(nature.x)[:, 1], rtol=1e-5)
    assert (found["reference_answer"] < found["answer"]).all()
    assert (found["hold"] > 0.3).all()
    assert found["converged"].all()
    assert (found["target_class"] == 1).all()
    for values in found.values():
        assert values.shape == (len(masks),)


def test_in_a_hurry_the_same_cells_are_found() -> None:
    nature = spikes()
    np.testing.assert_array_equal(nature.explained(fast=True).binary, nature.truth)


def test_a_scale_of_the_answer_changes_nothing() -> None:
    x = gaussian(4, 20, 3)

    def value(z: Tensor) -> Tensor:
        return z[:, 4:9, 1].sum(1) + z[:, 12, 0].square()

    one, thousand = (
        explain(lambda z, s=scale: s * value(z), x, task="regression", progress=False) for scale in (1.0, 1024.0)
    )
    np.testing.assert_allclose(one.masks, thousand.masks, atol=1e-4)
    np.testing.assert_allclose(1024 * one.attributions, thousand.attributions, rtol=1e-3, atol=1e-2)


def test_a_constant_added_to_the_answer_changes_nothing() -> None:
    x = high_segment()
    one, other = (
        explain(lambda z, s=shift: latched(z)[:, 1] + s, x, task="regression", progress=False) for shift in (0.0, 8.0)
    )
    np.testing.assert_allclose(one.masks, other.masks, atol=1e-3)
    np.testing.assert_array_equal(one.binary, other.binary)
