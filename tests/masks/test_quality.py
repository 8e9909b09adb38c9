"""The default finds planted cells of every nature, and its coefficients are worth their word."""

from functools import cache

import numpy as np
import pytest
from floors import FLOORS, nature
from natures import RECIPES, calibration_error, doubt, f1, quality, rank_correlation

from dynamask_mlflow import Masks


@cache
def explained(name: str) -> Masks:
    return nature(name).explained()


@pytest.mark.parametrize("name", FLOORS)
def test_planted_cells_are_found(name: str) -> None:
    found, floor = quality(explained(name), nature(name).truth), FLOORS[name]
    assert found.ranking >= floor.ranking
    assert found.cells >= floor.cells
    assert found.brier <= floor.brier


@pytest.mark.parametrize("name", ["one event", "several events", "redundancy", "risk"])
def test_in_a_hurry_little_is_lost(name: str) -> None:
    hasty = quality(nature(name).explained(fast=True), nature(name).truth)
    assert hasty.ranking >= FLOORS[name].ranking - 0.08


def test_coefficients_are_the_shares_of_planted_cells() -> None:
    parts = [(explained(name), nature(name).truth) for name in RECIPES]
    assert calibration_error(parts) < 0.08


def test_a_mask_of_more_entropy_has_more_errors() -> None:
    doubts = np.concatenate([doubt(explained(name)) for name in RECIPES])
    errors = np.concatenate([1 - f1(explained(name), nature(name).truth) for name in RECIPES])
    assert rank_correlation(doubts, errors) > 0.3


def test_risks_below_one_half_are_raised_by_their_deteriorations() -> None:
    masks, truth = explained("risk"), nature("risk").truth
    assert (masks.diagnostics["answer"] < 0).all()
    assert (masks.direction == 1).all()
    share = np.where(truth, masks.attributions, 0).sum((1, 2)) / masks.attributions.sum((1, 2))
    assert np.median(share) > 0.6


def test_padding_is_never_salient() -> None:
    masks, lengths = explained("padding"), nature("padding").options["lengths"]
    beyond = np.arange(48)[None] >= np.array(lengths)[:, None]
    assert beyond.any(1).all()
    assert (masks.masks[beyond] == 0).all()
    assert (masks.attributions[beyond] == 0).all()


def test_an_absence_is_compared_with_noise_and_the_other_natures_are_not() -> None:
    assert explained("absence").diagnostics["noise_baseline"].mean() > 0.8
    for name in ("one event", "redundancy", "risk", "padding"):
        assert not explained(name).diagnostics["noise_baseline"].any(), name
