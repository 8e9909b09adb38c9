"""How far the answer has moved from its reference answer, and which way."""

import numpy as np
import pytest
import torch
from departures import batch_of, departure_of
from networks import sequences
from torch import Tensor
from white_boxes import high_segment, latched, plateau, quiet_window, risk_below_one_half, spikes, two_classes

from dynamask_mlflow import explain
from dynamask_mlflow.masks.batching import LEAST
from dynamask_mlflow.masks.departure import NEGLIGIBLE_LOGIT
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.operators import Neutral, fade_to


def weighted(x: Tensor) -> Tensor:
    return two_classes(4 * x[:, 3, 0] - 2 * x[:, 7, 1])


def test_the_departure_is_the_score_minus_that_of_the_baselines() -> None:
    x = sequences(4, 12, 3)
    departure = departure_of(weighted, x, operators=("zero",))
    score = weighted(x)[:, 1]
    torch.testing.assert_close(departure.departure, score)
    assert departure.direction.tolist() == score.sign().tolist()
    torch.testing.assert_close(departure.gap[0], score.abs())
    assert departure.weights.tolist() == [[1, 1, 1, 1]]


def test_baselines_count_by_how_far_they_take_the_answer() -> None:
    """Gaps of 3 and 1: weights .75 and .25, and a departure of 3 * .75 + 1 * .25."""

    class To:
        random = False

        def __init__(self, value: float) -> None:
            self.spec, self.value = f"to:{value}", value

        def prepare(self, batch, step):  # type: ignore[no-untyped-def]
            return fade_to(batch.x, torch.full_like(batch.x, self.value))

    x = torch.full((1, 2, 2), 3.0)
    departure = departure_of(lambda z: z[:, 0, 0], x, task="regression", operators=(To(0.0), To(2.0)))
    torch.testing.assert_close(departure.weights, torch.tensor([[0.75], [0.25]]))
    torch.testing.assert_close(departure.strength, torch.tensor([[1.0], [1 / 3]]))
    assert departure.departure.item() == pytest.approx(2.5)
    strongest, second = departure.by_strength()
    assert strongest.baseline_scores.item() == 0
    assert second.baseline_scores.item() == 2


def test_a_mask_keeps_and_loses_shares_of_the_departure() -> None:
    x = torch.zeros(1, 12, 3)
    x[:, 3, 0], x[:, 7, 1] = 1.0, -1.0
    departure = departure_of(weighted, x, operators=("zero",))
    mask = torch.zeros_like(x)
    mask[:, 3, 0] = 1
    kept, lost = departure.kept_and_lost([mask, torch.ones_like(x)], [mask, torch.zeros_like(x)])
    assert kept[:, 0].tolist() == pytest.approx([4 / 6, 1])
    assert lost[:, 0].tolist() == pytest.approx([4 / 6, 0])
    assert departure.lost([mask]).item() == pytest.approx(4 / 6)


def test_a_risk_below_one_half_and_above_its_baselines_is_raised_by_the_cells_of_the_danger() -> None:
    nature = risk_below_one_half()
    masks = nature.explained()
    assert (masks.diagnostics["answer"] < 0).all()
    assert (masks.diagnostics["reference_answer"] < masks.diagnostics["answer"]).all()
    assert masks.direction.tolist() == [1] * len(masks)
    assert (masks.attributions[nature.truth] > 0).all()
    assert (masks.binary & nature.truth).sum() >= 0.9 * masks.binary.sum()
    assert (masks.diagnostics["for_answer"] == -1).all()


@pytest.mark.parametrize(("task", "faint"), [("classification", 1e-5), ("regression", 0.0)])
def test_where_there_is_next_to_nothing_to_explain_no_cell_is_salient(task: str, faint: float) -> None:
    masks = explain(lambda x: 3 + faint * x.sum((1, 2)), sequences(), task=task, progress=False)
    assert (masks.masks == 0).all()
    assert not masks.binary.any()
    assert (masks.area == 0).all()
    assert (masks.direction == 0).all()
    assert (masks.errors == 0).all()
    assert masks.diagnostics["constant_prediction"].all()


def test_one_per_cent_of_the_odds_is_the_least_that_is_explained() -> None:
    x = torch.zeros(2, 6, 2)
    x[:, 3, 1] = torch.tensor([0.5, 2.0]) * NEGLIGIBLE_LOGIT
    departure = departure_of(lambda z: two_classes(z.sum((1, 2))), x, operators=("zero",))
    assert departure.negligible.tolist() == [True, False]
    values = departure_of(lambda z: z.sum((1, 2)), x, task="regression", operators=("zero",))
    assert values.negligible.tolist() == [False, False]


def test_noise_replaces_baselines_where_nothing_happens_is_the_evidence() -> None:
    nature = quiet_window()
    departure = departure_of(nature.model, nature.x, noise=True)
    assert departure.noise.all()
    assert (departure.direction == 1).all()
    assert (departure.baseline_scores < 0).all()
    plain = departure_of(nature.model, nature.x)
    assert not plain.noise.any()
    assert (plain.baseline_scores.abs() > 3.5).all()


@pytest.mark.parametrize("model_and_x", [(latched, high_segment()), (spikes().model, spikes().x)])
def test_noise_does_not_replace_the_baselines_of_an_event(model_and_x: tuple) -> None:  # type: ignore[type-arg]
    assert not departure_of(*model_and_x, noise=True).noise.any()


def test_operators_of_ones_own_are_never_replaced_by_noise() -> None:
    nature = quiet_window()
    masks = nature.explained(operators=["time_mean"])
    assert not masks.diagnostics["noise_baseline"].any()


def infers_padding(x: Tensor) -> Tensor:
    """Attention over steps that are not all zeros: NaN where there is none."""
    exists = (x != 0).any(-1)
    weight = torch.zeros_like(x[..., 0]).masked_fill(~exists, -torch.inf).softmax(1)
    return two_classes(4 * (weight[..., None] * x)[:, :, 1].sum(1))


def test_an_operator_under_which_the_model_fails_is_left_out_and_named() -> None:
    x = sequences(4, 40, 3)
    x[:, 5:9, 1] += 8
    masks = explain(infers_padding, x, progress=False)
    assert masks.diagnostics["failed/neutral"].all()
    assert not masks.diagnostics["failed/time_mean"].any()
    assert np.isfinite(masks.masks).all()
    assert np.isfinite(masks.attributions).all()
    only = explain(infers_padding, x, operators=["time_mean"], progress=False)
    np.testing.assert_allclose(masks.attributions, only.attributions, atol=1e-5)
    answer = masks.diagnostics["answer"] - masks.diagnostics["reference_answer"]
    np.testing.assert_allclose(masks.attributions.sum((1, 2)), answer, rtol=1e-4, atol=1e-5)


def test_an_operator_may_fail_for_some_instances_only() -> None:
    x = sequences(4, 40, 3)
    x[:2] += 50  # there neutral is the median
    masks = explain(infers_padding, x, progress=False)
    assert masks.diagnostics["failed/neutral"].tolist() == [False, False, True, False]  # the last has a level off zero


def test_answers_at_every_step_leave_failing_operators_out_too() -> None:
    x = sequences(3, 12, 3)

    def running(z: Tensor) -> Tensor:
        return z[..., 1].cumsum(1) / (z != 0).any(-1).any(1, keepdim=True)

    masks = explain(running, x, task="regression", operators=["zero", "time_mean"], steps=5, progress=False)
    assert masks.diagnostics["failed/zero"].all()
    assert np.isfinite(masks.masks).all()
    assert ((masks.errors >= 0) & (masks.errors <= 1)).all()


@pytest.mark.parametrize("every_step", [False, True])
def test_where_every_operator_fails_the_message_says_the_way_out(every_step: bool) -> None:
    def fails(x: Tensor) -> Tensor:
        answer = x[..., 1] / (x != 0).any(-1).any(1, keepdim=True)
        return answer if every_step else answer.sum(1)

    with pytest.raises(ModelError, match=r"under every operator \(zero\)\. Pass `operators` .*or a `reference`"):
        explain(fails, sequences(), task="regression", operators=["zero"], steps=2, progress=False)


class BrokenGradient(torch.autograd.Function):
    """The identity, whose gradient is NaN where an input is exactly zero."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return torch.where(x == 0, torch.nan, gradient)


def test_an_operator_under_which_gradients_are_not_finite_is_left_out_and_named() -> None:
    x = sequences(3, 20, 3)
    x[:, :, 0], x[:, 4:8, 1] = 50.0, 8.0

    def model(z: Tensor) -> Tensor:
        """Channel 0 is never zero, except where the operator `zero` takes half of it, and 25 more, away."""
        shifted = BrokenGradient.apply(z[:, :, 0] - 25)
        return two_classes(z[:, :, 1].sum(1) + 0 * shifted.sum(1))

    halfway = explain(model, x, operators=["zero", "time_mean"], fast=True, progress=False)
    assert halfway.diagnostics["failed/zero"].all()
    assert not halfway.diagnostics["failed/time_mean"].any()
    alone = explain(model, x, operators=["time_mean"], fast=True, progress=False)
    np.testing.assert_allclose(halfway.attributions, alone.attributions, atol=1e-5)


@pytest.mark.parametrize("every_step", [False, True])
def test_gradients_that_are_never_finite_are_an_error(every_step: bool) -> None:
    def model(z: Tensor) -> Tensor:
        broken = BrokenGradient.apply(0 * z[..., 0])
        return z[..., 1] + broken if every_step else (z[..., 1] + broken).sum(1)

    with pytest.raises(ModelError, match="Expected finite outputs and gradients"):
        explain(model, sequences(), task="regression", steps=2, progress=False)


def test_neutral_is_the_median_where_it_is_further_from_zero_than_one_and_a_half_robust_deviations() -> None:
    """The series has median 0 and a median absolute deviation of 1: its level must be beyond 1.5 x 1.4826 = 2.22."""
    series = torch.tensor([-1.0, 0.0, 1.0, 8.0, -9.0])
    x = torch.stack([series + 2.25, series + 2.2, series - 2.25, series], -1)[None]
    fade = Neutral().prepare(batch_of(x), 0)
    assert fade(torch.zeros_like(x))[0][0, 0].tolist() == [2.25, 0.0, -2.25, 0.0]


def test_a_level_off_zero_with_a_small_spread_has_its_median_as_baseline() -> None:
    x = 0.3 + 0.05 * sequences(1, 40, 1)
    fade = Neutral().prepare(batch_of(x), 0)
    assert fade(torch.zeros_like(x))[0][0, 0, 0].item() == pytest.approx(0.3, abs=0.03)


def test_what_the_mean_leaves_standing_hardly_counts() -> None:
    nature = plateau()
    weights = departure_of(nature.model, nature.x).weights
    assert (weights[0] < 0.1).all()
    assert (weights[1] > 0.9).all()


def test_cells_that_do_not_exist_are_never_replaced() -> None:
    x = sequences(2, 8, 2)
    exists = torch.ones(2, 8, 2, dtype=torch.bool)
    exists[:, 5:] = False
    departure = departure_of(
        lambda z: z[:, 6].sum(1), x, task="regression", operators=("zero", "blur:1"), exists=exists
    )
    assert departure.negligible.all()
    for gradient in departure.raw_gradients_under([(torch.full_like(x, 0.5), operator) for operator in (0, 1)]):
        assert (gradient[~exists] == 0).all()


def test_rows_of_a_departure_keep_their_scores() -> None:
    nature = spikes()
    departure = departure_of(nature.model, nature.x)
    rows = departure.rows_where(torch.arange(6) >= 1)
    assert rows is not None
    part = departure.rows(rows)
    mask = torch.full_like(nature.x, 0.5)
    torch.testing.assert_close(part.score_under(mask[rows]), departure.score_under(mask)[rows])
    (of_part,), (of_all,) = part.raw_gradients_under([(mask[rows], 1)]), departure.raw_gradients_under([(mask, 1)])
    torch.testing.assert_close(of_part, of_all[rows])
    torch.testing.assert_close(part.weights, departure.weights[:, rows])


def test_few_rows_are_filled_up_and_work_that_cannot_be_divided_is_not() -> None:
    departure = departure_of(weighted, sequences(16, 12, 3))
    assert departure.rows_where(torch.arange(16) == 2).tolist() == [2] * LEAST  # type: ignore[union-attr]
    assert departure.rows_where(torch.arange(16) > 20).tolist() == []  # type: ignore[union-attr]
    assert len(departure.rows_where(torch.arange(16) > 6)) == 2 * LEAST  # type: ignore[arg-type]
    # A batch that was made small for want of memory stays small.
    small = departure_of(weighted, sequences(3, 12, 3))
    assert small.rows_where(torch.arange(3) == 1).tolist() == [1, 1, 1]  # type: ignore[union-attr]
    blurred = departure_of(weighted, sequences(6, 12, 3), operators=("blur:1",))
    assert blurred.rows_where(torch.arange(6) == 2) is None
