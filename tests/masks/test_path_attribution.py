"""Signed attributions: closed forms, and sums that come out for every kind of model and output."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from departures import departure_of
from networks import Attention, LongMemory, Recurrent, sequences, with_seed
from torch import Tensor
from white_boxes import high_segment, spikes, two_classes

from dynamask_mlflow import Masks, explain
from dynamask_mlflow.masks import path_attribution
from dynamask_mlflow.masks.path_attribution import LEVELS, RANDOM_MASKS, TOLERANCE, gauss_legendre, path_attributions

STEPS, CHANNELS = 12, 4
WEIGHTS = sequences(1, STEPS, CHANNELS, seed=7)[0]
X = sequences(5, STEPS, CHANNELS)


def linear(x: Tensor) -> Tensor:
    return (x * WEIGHTS).sum((1, 2))


def product(x: Tensor) -> Tensor:
    return x[:, 2:5, 0].mean(1) * x[:, 6:9, 1].mean(1)


def recurrent_value(x: Tensor) -> Tensor:
    return MODELS["gru"](x)[:, 0]


MODELS: dict[str, Callable[[Tensor], Tensor]] = {
    "gru": with_seed(Recurrent),
    "lstm": with_seed(LongMemory),
    "transformer": with_seed(Attention),
    "linear": linear,
    "product": product,
}


def missed(masks: Masks) -> np.ndarray:
    """How far the sums are from answer - reference answer, as shares of it."""
    wanted = masks.diagnostics["answer"] - masks.diagnostics["reference_answer"]
    size = np.maximum(np.abs(wanted), 1e-3 * np.abs(masks.attributions).sum((1, 2)))
    return np.asarray(np.abs(masks.attributions.sum((1, 2), dtype=np.float64) - wanted) / np.maximum(size, 1e-9))


SETTINGS: dict[str, dict[str, Any]] = {
    "all cells": {},
    "fast": {"fast": True},
    "lengths": {"lengths": [12, 9, 7, 12, 4]},
    "observed": {"observed": sequences(5, STEPS, CHANNELS, seed=3) > -0.8},
    "reference": {"reference": sequences(20, STEPS, CHANNELS, seed=4)},
    "one reference": {"reference": sequences(20, STEPS, CHANNELS, seed=4).mean(0)},
    "other operators": {"operators": ["blur:1", "past_average:3", "zero"]},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", MODELS)
def test_attributions_sum_to_the_answer_minus_the_reference_answer(name: str, setting: str) -> None:
    task = "classification" if name in ("gru", "lstm", "transformer") else "regression"
    masks = explain(MODELS[name], X, task=task, progress=False, **SETTINGS[setting])
    assert (missed(masks) < 1e-4).all()
    assert (masks.diagnostics["remainder"] < 2 * TOLERANCE).all()


@pytest.mark.parametrize(
    ("model", "task", "target"),
    [
        (lambda x: torch.stack([linear(x), product(x), x[:, 3].sum(1)], 1), "regression", "auto"),
        (lambda x: torch.stack([linear(x), product(x), x[:, 3].sum(1)], 1), "regression", "horizon:1"),
        (lambda x: torch.stack([linear(x), product(x), x[:, 3].sum(1)], 1), "classification", "auto"),
        (lambda x: torch.stack([linear(x), product(x), x[:, 3].sum(1)], 1), "classification", 2),
        (lambda x: x.cumsum(1)[..., 0], "regression", "step:4"),
        (lambda x: x.cumsum(1)[..., :3], "classification", "step:4"),
        (linear, "classification", "auto"),
        (linear, "classification", lambda output: output.square()),
        (recurrent_value, "regression", "auto"),
    ],
)
def test_they_do_for_every_output_and_target(model: Any, task: str, target: Any) -> None:
    masks = explain(model, X, task=task, target=target, progress=False)
    assert (missed(masks) < 1e-4).all()


def test_a_linear_model_has_its_closed_form() -> None:
    masks = explain(linear, X, task="regression", operators=["time_mean"], progress=False)
    expected = WEIGHTS * (X - X.mean(1, keepdim=True))
    np.testing.assert_allclose(masks.attributions, expected, atol=1e-5)
    np.testing.assert_allclose(masks.diagnostics["reference_answer"], linear(X.mean(1, keepdim=True)), atol=1e-5)


def test_baselines_are_averaged_by_how_far_they_take_the_answer() -> None:
    masks = explain(linear, X, task="regression", operators=["time_mean", "zero"], progress=False)
    mean = X.mean(1, keepdim=True)
    gaps = torch.stack([linear(X) - linear(mean), linear(X)])
    direction = gaps.sum(0).sign()
    along = (gaps * direction).clamp(min=0)
    weight = along / along.sum(0)
    expected = WEIGHTS * (X - weight[0, :, None, None] * mean)
    np.testing.assert_allclose(masks.attributions, expected, atol=1e-4)


def test_a_product_is_shared_equally_by_its_factors() -> None:
    x = torch.zeros(1, 3, 2)
    x[0, 0, 0], x[0, 2, 1] = 2.0, 3.0
    masks = explain(lambda z: z[:, 0, 0] * z[:, 2, 1], x, task="regression", operators=["zero"], progress=False)
    expected = np.zeros((1, 3, 2))
    expected[0, 0, 0] = expected[0, 2, 1] = 3.0
    np.testing.assert_allclose(masks.attributions, expected, atol=1e-5)


def two_thresholds(x: Tensor) -> Tensor:
    """Each half of the answer rises steeply at a place of its own on the way."""
    first, second = x[:, 2:5, 0].mean(1), x[:, 6:9, 1].mean(1)
    return torch.sigmoid(20 * (first - 1)) + torch.sigmoid(20 * (second - 2.4))


@pytest.fixture
def steep() -> Tensor:
    x = torch.zeros(4, STEPS, CHANNELS)
    x[:, 2:5, 0] = x[:, 6:9, 1] = 3
    return x


def test_smooth_networks_need_no_more_than_the_usual_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power of eight on the way: its derivative is of degree seven, which four levels integrate exactly."""

    def power(x: Tensor) -> Tensor:
        return x[:, 3, 1] ** 8

    asked = []
    plain = path_attribution._mean_gradients

    def counted(departure: Any, levels: Any, mask_at: Any) -> Any:
        asked.append(len(levels))
        return plain(departure, levels, mask_at)

    monkeypatch.setattr(path_attribution, "_mean_gradients", counted)
    departure = departure_of(power, X, task="regression", operators=("zero",))
    paths = path_attributions(departure, LEVELS, RANDOM_MASKS)
    assert asked == [LEVELS, RANDOM_MASKS]
    np.testing.assert_allclose(paths.remainder, 0, atol=1e-4)


def test_more_levels_are_taken_where_the_sum_does_not_come_out(steep: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    def halves() -> Tensor:
        departure = departure_of(two_thresholds, steep, task="regression", operators=("zero",))
        return path_attributions(departure, LEVELS, RANDOM_MASKS).attributions.sum(1)[:, :2]

    torch.testing.assert_close(halves(), torch.ones(4, 2), atol=0.03, rtol=0)
    monkeypatch.setattr(path_attribution, "MORE_LEVELS", LEVELS)
    assert ((halves() - 1).abs() > 0.2).all()


def test_cells_that_only_more_levels_reach_are_read_too() -> None:
    """The answer rises on a small part of the way: a few levels step over it and see a model without gradients."""

    def narrow(x: Tensor) -> Tensor:
        return 4 * ((x[:, 8:12, 1].mean(1) - 1.05) / 0.15).clamp(0, 1)

    x = torch.zeros(4, 24, 3)
    x[:, 8:12, 1] = 3
    departure = departure_of(narrow, x, task="regression", operators=("zero",))
    coarse, _, _ = path_attribution._mean_gradients(departure, gauss_legendre(LEVELS), path_attribution._even_mask)
    assert (coarse == 0).all()
    masks = explain(narrow, x, task="regression", operators=["zero"], progress=False)
    assert not masks.diagnostics["dead_gradient"].any()
    assert (masks.direction == 1).all()
    assert (masks.binary == (x.numpy() == 3)).all()


def test_what_no_level_finds_is_told(steep: Tensor) -> None:
    class Jump(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return (x > 1).to(x.dtype)

        @staticmethod
        def backward(_: Any, gradient: Tensor) -> Tensor:
            return torch.zeros_like(gradient)

    masks = explain(lambda x: Jump.apply(x).sum((1, 2)), steep, task="regression", progress=False)
    assert masks.diagnostics["dead_gradient"].all()
    assert (masks.diagnostics["remainder"] == 1).all()
    assert not masks.binary.any()


def test_attributions_point_the_way_they_move_the_answer() -> None:
    def weighted(x: Tensor) -> Tensor:
        return two_classes(4 * x[:, 3, 0] - 2 * x[:, 7, 1])

    x = 0.1 * sequences(4, 12, 3)
    x[:, 3, 0], x[:, 7, 1] = 2.0, 1.0
    flat = explain(weighted, x, progress=False).attributions.reshape(4, -1)
    assert (flat.argmax(1) == 3 * 3 + 0).all()
    assert (flat.argmin(1) == 7 * 3 + 1).all()
    turned = explain(weighted, x, target=0, progress=False).attributions.reshape(4, -1)
    np.testing.assert_allclose(turned, -flat, atol=1e-5)


def test_unread_cells_have_no_magnitude() -> None:
    nature = spikes()
    paths = path_attributions(departure_of(nature.model, nature.x), LEVELS, RANDOM_MASKS)
    assert (paths.magnitude[:, :, 2:] == 0).all()
    assert (paths.magnitude[torch.from_numpy(nature.truth)] > 0).all()
    assert (paths.attributions[:, :, 2:] == 0).all()


def test_under_each_baseline_alone_they_sum_to_its_own_gap() -> None:
    x = high_segment()
    departure = departure_of(linear_of_all, x, task="regression")
    by_operator = path_attributions(departure, LEVELS, RANDOM_MASKS).by_operator
    torch.testing.assert_close(by_operator.flatten(2).sum(2), departure.gap, rtol=1e-4, atol=1e-4)


def test_random_masks_see_a_cell_behind_another() -> None:
    """The answer is the larger of two values: on the even way the smaller never shows, in other company it does."""

    def larger(x: Tensor) -> Tensor:
        return torch.maximum(x[:, 3, 0], x[:, 7, 1])

    x = 0.1 * sequences(4, 12, 3)
    x[:, 3, 0], x[:, 7, 1] = 3.2, 3.0
    paths = path_attributions(departure_of(larger, x, task="regression", operators=("zero",)), LEVELS, RANDOM_MASKS)
    assert (paths.by_operator[:, :, 7, 1] == 0).all()
    assert (paths.gradients[:, :, 7, 1] > 0).all()
    scores = explain(larger, x, task="regression", progress=False).scores
    assert (scores[:, 7, 1] > np.delete(scores.reshape(4, -1), [3 * 3, 7 * 3 + 1], axis=1).max(1)).all()


def test_random_masks_agree_with_the_path_on_a_linear_model() -> None:
    departure = departure_of(linear_of_all, high_segment(), task="regression")
    paths = path_attributions(departure, LEVELS, RANDOM_MASKS)
    torch.testing.assert_close(paths.gradients, paths.by_operator, rtol=1e-4, atol=1e-5)


def linear_of_all(x: Tensor) -> Tensor:
    return (x * torch.linspace(-1, 2, x[0].numel()).view(x.shape[1:])).sum((1, 2))
