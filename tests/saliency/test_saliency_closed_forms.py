"""Each method against something independent: a closed form, a hand calculation, or captum called directly."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.smoothing import smooth_in_time
from dynamask_mlflow.saliency.extrmask import Descent, extremal_mask
from dynamask_mlflow.saliency.fit import feature_importance_in_time
from dynamask_mlflow.saliency.generator import Generator, condition, train_generator
from dynamask_mlflow.saliency.gradients import deep_lift, gradient_shap, integrated_gradients
from dynamask_mlflow.saliency.occlusion import (
    augmented_feature_occlusion,
    feature_occlusion,
    feature_permutation,
)
from dynamask_mlflow.saliency.question import Question, ask
from dynamask_mlflow.saliency.retain import Retain, retain_scores, train_retain
from dynamask_mlflow.saliency.sampling import lime, random_scores, shapley_value_sampling

WEIGHTS = torch.tensor([[1.0, -2.0, 0.0], [0.5, 0.0, 3.0]])


def linear(x: Tensor) -> Tensor:
    return (x * WEIGHTS).sum((1, 2))[:, None, None]


def additive(x: Tensor) -> Tensor:
    """At each step the sum of x^3."""
    return x.pow(3).sum(-1)[..., None]


def product(x: Tensor) -> Tensor:
    """x_00 x_01: neither cell counts without the other."""
    return (x[:, 0, 0] * x[:, 0, 1])[:, None, None]


def regression(outputs: object, x: Tensor, exists: Tensor | None = None) -> Question:
    return ask(outputs, x, classification=False, exists=exists)  # type: ignore[arg-type]


@pytest.fixture
def x() -> Tensor:
    return torch.randn(3, 2, 3, generator=torch.Generator().manual_seed(0))


def test_integrated_gradients_of_a_linear_model_are_weight_times_difference(x: Tensor) -> None:
    baseline = torch.full_like(x, 0.5)
    scores = integrated_gradients(regression(linear, x), x, baseline)
    torch.testing.assert_close(scores, WEIGHTS * (x - baseline))


def test_integrated_gradients_are_complete_on_a_network() -> None:
    torch.manual_seed(0)
    gru, head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 4)
    outputs = lambda x: head(gru(x)[0])  # noqa: E731
    x = torch.randn(5, 7, 3)
    question = ask(outputs, x, classification=True)
    scores = integrated_gradients(question, x, torch.zeros_like(x), steps=100)
    gap = question.value(x, *question.context) - question.value(torch.zeros_like(x), *question.context)
    torch.testing.assert_close(scores.sum((1, 2)), gap.detach(), atol=1e-4, rtol=1e-4)


def test_shapley_values_of_an_additive_model_are_each_cells_own_part(x: Tensor) -> None:
    scores = shapley_value_sampling(regression(additive, x), x, torch.zeros_like(x), seed=0, samples=3)
    torch.testing.assert_close(scores, x.pow(3), atol=1e-4, rtol=1e-4)


def test_shapley_values_share_a_product_equally_and_are_efficient() -> None:
    x = torch.tensor([[[2.0, 3.0, 1.0], [1.0, 1.0, 1.0]]])
    scores = shapley_value_sampling(regression(product, x), x, torch.zeros_like(x), seed=0, samples=400)
    assert scores.sum() == pytest.approx(6, abs=1e-4)
    assert scores[0, 0, 0] == pytest.approx(3, abs=0.5)
    assert scores[0, 0, 2] == 0


def test_gradient_shap_of_a_linear_model_needs_no_luck(x: Tensor) -> None:
    pool = torch.ones(1, 2, 3)
    scores = gradient_shap(regression(linear, x), x, torch.zeros_like(x), pool, seed=0, samples=4)
    torch.testing.assert_close(scores, WEIGHTS * (x - 1))


def test_deep_lift_is_exact_through_a_relu() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 1), nn.ReLU())
    with torch.no_grad():
        model[1].weight.copy_(WEIGHTS.flatten()[None])
        model[1].bias.fill_(-1.0)
    x = torch.tensor([[[2.0, 0.0, 1.0], [0.0, 1.0, 1.0]]])
    question = ask(lambda v: model(v)[:, :, None], x, classification=False, module=model)
    scores = deep_lift(question, x, torch.zeros_like(x))
    # z = 2 + 3 - 1 = 4 at x, -1 at 0: the rescale rule's multiplier is (4 - 0) / (4 - -1) = .8.
    torch.testing.assert_close(scores, 0.8 * WEIGHTS[None] * x)


def test_deep_lift_refuses_what_it_cannot_look_into(x: Tensor) -> None:
    with pytest.raises(ModelError, match="Expected a torch module for method 'dl'"):
        deep_lift(regression(linear, x), x, torch.zeros_like(x))


def test_lime_finds_the_weights_of_a_linear_model() -> None:
    x = torch.ones(1, 2, 3)
    scores = lime(regression(linear, x), x, torch.zeros_like(x), seed=0, samples=2000)
    torch.testing.assert_close(scores[0], WEIGHTS, atol=0.1, rtol=0)


def test_occlusion_is_the_change_of_the_answer(x: Tensor) -> None:
    baseline = torch.full_like(x, 2.0)
    scores = feature_occlusion(regression(linear, x), x, baseline)
    torch.testing.assert_close(scores, (WEIGHTS * (x - baseline)).abs(), atol=1e-5, rtol=1e-5)


def test_opposite_changes_of_two_outputs_do_not_cancel() -> None:
    outputs = lambda x: torch.stack([x[:, :, 0], -x[:, :, 0]], -1)  # noqa: E731
    x = torch.tensor([[[3.0]]])
    question = regression(outputs, x)
    torch.testing.assert_close(feature_occlusion(question, x, torch.zeros_like(x)), torch.tensor([[[6.0]]]))


def test_augmented_occlusion_draws_from_the_pool(x: Tensor) -> None:
    pool = torch.full((4, 2, 3), 5.0)
    scores = augmented_feature_occlusion(regression(linear, x), x, pool, None, seed=0, draws=3)
    torch.testing.assert_close(scores, (WEIGHTS * (x - 5)).abs(), atol=1e-5, rtol=1e-5)


def test_permutation_moves_values_within_their_own_channel() -> None:
    x = torch.tensor([[[1.0, 7.0, 2.0], [4.0, 7.0, 2.0]]])
    scores = feature_permutation(regression(linear, x), x, None, seed=0, draws=200)
    # Channel 0 is swapped half of the time, which moves each of its cells by 3; the others are constant.
    torch.testing.assert_close(scores[0, :, 0], torch.tensor([1.5, 0.75]), atol=0.4, rtol=0)
    assert (scores[0, :, 1:] == 0).all()


def test_permutation_never_brings_in_padding() -> None:
    x = torch.tensor([[[1.0, 1.0, 1.0], [1e6, 1e6, 1e6]]])
    exists = torch.tensor([[[True], [False]]]).expand(1, 2, 3)
    scores = feature_permutation(regression(linear, x, exists), x, exists, seed=0, draws=8)
    assert (scores == 0).all()


def test_random_scores_belong_to_the_instance(x: Tensor) -> None:
    scores = random_scores(x, seed=0)
    torch.testing.assert_close(random_scores(x[[2, 0]], seed=0), scores[[2, 0]])
    assert not torch.equal(random_scores(x, seed=1), scores)


def test_conditioning_is_the_gaussian_formula() -> None:
    covariance = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    mean = torch.tensor([1.0, -1.0])
    root = torch.linalg.cholesky(covariance)
    joint = mean + torch.randn(200_000, 2, generator=torch.Generator().manual_seed(0)) @ root.T
    known = condition(joint, covariance, torch.tensor([2.0, 5.0]))
    assert (known[0, :, 0] == 2).all()
    assert known[0, :, 1].mean() == pytest.approx(-1 + 1 / 2 * (2 - 1), abs=0.02)
    assert known[0, :, 1].var() == pytest.approx(3 - 1 / 2, abs=0.05)
    assert known[1, :, 0].mean() == pytest.approx(1 + 1 / 3 * (5 + 1), abs=0.02)


def test_the_generator_learns_the_process() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.zeros(300, 12, 2)
    for t in range(1, 12):
        noise = torch.randn(300, 2, generator=rng)
        x[:, t, 0] = 0.9 * x[:, t - 1, 0] + 0.3 * noise[:, 0]
        x[:, t, 1] = x[:, t, 0] + 0.1 * noise[:, 1]
    generator = train_generator(x, seed=0, steps=150)
    with torch.no_grad():
        mean, root = generator(x)
    covariance = (root @ root.transpose(-1, -2))[:, 5:].mean((0, 1))
    correlation = covariance[0, 1] / (covariance[0, 0] * covariance[1, 1]).sqrt()
    assert correlation > 0.8
    assert ((mean[:, 5:, 0] - 0.9 * x[:, 4:-1, 0]).square().mean().sqrt()) < 0.15


class Known(Generator):
    """Independent standard normal channels, whatever came before."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(x), torch.eye(x.shape[2]).expand(*x.shape[:2], -1, -1)


def test_fit_credits_the_feature_that_moves_the_prediction_by_its_definition() -> None:
    """The class depends on channel 0 of the present step alone, and the generator is known."""
    outputs = lambda x: torch.stack([torch.zeros_like(x[..., 0]), 3 * x[..., 0]], -1)  # noqa: E731
    x = torch.tensor([[[0.0, 0.0], [2.0, 2.0], [2.0, 0.0]]])
    scores = feature_importance_in_time(ask(outputs, x, classification=True), x, Known(2), seed=0, samples=4000)[0]
    p = lambda v: torch.stack([torch.sigmoid(-3 * v), torch.sigmoid(3 * v)])  # noqa: E731
    kl = lambda a, b: (a * (a / b).log()).sum()  # noqa: E731
    now, before = p(torch.tensor(2.0)), p(torch.tensor(0.0))
    # Knowing channel 0 leaves nothing unexplained; knowing channel 1 leaves channel 0 to chance: p = 1/2.
    assert scores[1, 0] == pytest.approx(float(kl(now, before)), abs=1e-3)
    assert scores[1, 1] == pytest.approx(float(kl(now, before) - kl(now, torch.tensor([0.5, 0.5]))), abs=0.05)
    assert scores[2, 0] == pytest.approx(0, abs=1e-5)
    assert scores[2, 1] < -0.3


def test_fit_needs_classes_and_any_length(x: Tensor) -> None:
    with pytest.raises(ModelError, match="Expected a classifier for method 'fit'"):
        feature_importance_in_time(regression(linear, x), x, Known(3), seed=0)
    stiff = nn.Linear(6, 2)
    question = ask(lambda v: stiff(v.flatten(1))[:, None], x, classification=True)
    with pytest.raises(ModelError, match="sequences of any length for method 'fit'"):
        feature_importance_in_time(question, x, Known(3), seed=0)


def test_retains_contributions_add_up_to_its_answer() -> None:
    torch.manual_seed(0)
    model = Retain(3, 2, hidden=5)
    x = torch.randn(4, 6, 3)
    total = model.contributions(x).sum((1, 2)) + model.head.bias
    torch.testing.assert_close(total, model(x))
    torch.testing.assert_close(model.attention(x)[0].sum(-1), torch.ones(4))


def test_retain_ignores_what_comes_after_the_length() -> None:
    torch.manual_seed(0)
    model = Retain(3, 2, hidden=5)
    x = torch.randn(2, 6, 3)
    longer = torch.cat([x, torch.randn(2, 3, 3)], 1)
    torch.testing.assert_close(model(longer, torch.tensor([6, 6])), model(x))


def test_retain_reads_the_channel_that_the_black_box_reads() -> None:
    outputs = lambda x: torch.stack([torch.zeros(len(x)), 4 * x[:, :, 1].mean(1)], -1)[:, None]  # noqa: E731
    x = torch.randn(256, 8, 3, generator=torch.Generator().manual_seed(0))
    question = ask(outputs, x, classification=True)
    scores = retain_scores(question, x, train_retain(question, x, seed=0, steps=150))
    share = scores.sum(1) / scores.sum((1, 2))[:, None]
    assert share.mean(0)[1] > 0.7


def test_extremal_mask_keeps_what_matters() -> None:
    outputs = lambda x: 10 * x[:, :, :1]  # noqa: E731
    x = 1 + torch.rand(2, 6, 3, generator=torch.Generator().manual_seed(0))
    mask = extremal_mask(regression(outputs, x), x, None, Descent(steps=200, learning_rate=0.05))
    assert mask[..., 0].min() > 0.9
    assert mask[..., 1:].max() < 0.1


def test_a_named_loss_is_summed_over_the_answer_and_keeps_more() -> None:
    """As published the error is a mean over the steps; summed over 20 of them it weighs 20 times as much."""
    outputs = lambda x: x[:, :, :1]  # noqa: E731
    x = torch.linspace(0.2, 3, 20)[None, :, None] * torch.ones(1, 20, 2)
    published, summed = (
        extremal_mask(regression(outputs, x), x, None, Descent(steps=300, learning_rate=0.05, loss=loss))
        for loss in ("auto", "squared")
    )
    assert summed[..., 0].mean() > published[..., 0].mean() + 0.1
    assert summed[..., 1].max() < 0.1


def test_smoothing_is_a_gaussian_mean_over_the_steps_that_exist() -> None:
    impulse = torch.zeros(1, 9, 1)
    impulse[0, 4] = 1.0
    g = torch.exp(-0.5 * torch.arange(-4.0, 5.0).square())
    window = torch.where(torch.arange(-4, 5).abs() <= 3, g, 0.0)
    # The weights of the steps that each one sees: all seven in the middle, fewer at the edges.
    seen = torch.stack([torch.roll(torch.cat([window, torch.zeros(9)]), t)[4:13].sum() for t in range(9)])
    torch.testing.assert_close(smooth_in_time(impulse, 1.0, reach=3.0)[0, :, 0], window / seen)
    exists = torch.ones(1, 9, 1, dtype=torch.bool)
    exists[0, 4] = False
    assert (smooth_in_time(impulse, 1.0, exists, reach=3.0)[0, exists[0]] == 0).all()


def test_padding_does_not_count_in_the_answer(x: Tensor) -> None:
    exists = torch.tensor([[True], [False]]).expand(3, 2, 3)
    question = regression(additive, x, exists)
    np.testing.assert_allclose(question.value(x, *question.context), x[:, 0].pow(3).sum(-1), rtol=1e-5)
