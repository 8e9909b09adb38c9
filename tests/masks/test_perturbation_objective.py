"""The error of a mask under several operators, in units of the empty mask's."""

import pytest
import torch
from departures import batch_of
from networks import sequences
from torch import Tensor

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.operators import parse_operators
from dynamask_mlflow.masks.perturbation_objective import PerturbationObjective, choose_loss

X = sequences(4, 8, 3)


def objective(
    model: object, operators: tuple[str, ...], task: str = "regression", *, deletion: bool = False, loss: str = "auto"
) -> PerturbationObjective:
    black_box = BlackBox(model, task, "values" if task == "regression" else "logits")  # type: ignore[arg-type]
    return PerturbationObjective.prepare(black_box, batch_of(X), parse_operators(operators), loss, deletion)


def at_every_step(x: Tensor) -> Tensor:
    return 3 * x[..., 1]


@pytest.mark.parametrize(
    ("task", "steps", "expected"),
    [("regression", 5, "squared"), ("classification", 1, "margin"), ("classification", 5, "logit")],
)
def test_the_loss_follows_the_answers(task: str, steps: int, expected: str) -> None:
    black_box = BlackBox(lambda x: x, task, "logits" if task == "classification" else "values")
    assert choose_loss("auto", black_box, torch.zeros(2, steps, 2)) == expected
    assert choose_loss("cross_entropy", black_box, torch.zeros(2, steps, 2)) == "cross_entropy"


def test_the_full_mask_is_at_distance_zero_and_the_empty_one_at_distance_one() -> None:
    problem = objective(at_every_step, ("zero",))
    assert (problem.distance(torch.ones_like(X), 0, 0) == 0).all()
    torch.testing.assert_close(problem.distance(torch.zeros_like(X), 0, 0), torch.ones(4))
    # Half of the value is missing at every step: half of the distance.
    torch.testing.assert_close(problem.distance(torch.full_like(X, 0.5), 0, 0), torch.full((4,), 0.5))


def test_removing_everything_is_at_distance_zero_of_what_deletion_asks_for() -> None:
    problem = objective(at_every_step, ("zero",), deletion=True)
    assert (problem.distance(torch.ones_like(X), 0, 0) < 1e-6).all()
    torch.testing.assert_close(problem.distance(torch.zeros_like(X), 0, 0), torch.ones(4))


def test_an_operator_that_removes_little_counts_little() -> None:
    problem = objective(at_every_step, ("zero", "blur:0.2"))
    empty = torch.zeros_like(X)
    assert (problem.distance(empty, 1, 0) < 0.2).all()
    torch.testing.assert_close(problem.normaliser, problem.empty[0])


def test_the_unit_of_the_answer_drops_out() -> None:
    mask = torch.rand(X.shape, generator=torch.Generator().manual_seed(0))
    one, large = (objective(lambda x, s=scale: s * at_every_step(x), ("zero",)) for scale in (1.0, 1000.0))
    torch.testing.assert_close(one.distance(mask, 0, 0), large.distance(mask, 0, 0))
    torch.testing.assert_close(one.gradient(mask, 0, 0), large.gradient(mask, 0, 0), rtol=1e-3, atol=1e-5)


def test_an_operator_under_which_the_model_fails_takes_no_part() -> None:
    def fails_at_zero(x: Tensor) -> Tensor:
        return x[..., 1] / (x != 0).any(-1).any(1, keepdim=True)

    problem = objective(fails_at_zero, ("zero", "time_mean"))
    empty = torch.zeros_like(X)
    assert problem.usable.tolist() == [[False] * 4, [True] * 4]
    assert (problem.distance(empty, 0, 0) == 0).all()
    assert (problem.gradient(empty, 0, 0) == 0).all()
    torch.testing.assert_close(problem.distance(empty, 1, 0), torch.ones(4))


def test_the_gradient_of_a_mask_is_the_derivative_of_its_loss() -> None:
    problem = objective(lambda x: x[..., 1].cumsum(1), ("zero",))
    mask = (0.2 + 0.6 * torch.rand(X.shape, generator=torch.Generator().manual_seed(0))).requires_grad_()
    loss = torch.sqrt(
        (problem.discrepancy(problem.black_box(X * mask)) - problem.floor).clamp(min=0) / problem.normaliser + 1e-4
    )
    (expected,) = torch.autograd.grad(loss.sum(), mask)
    torch.testing.assert_close(problem.gradient(mask.detach(), 0, 0), expected, rtol=1e-4, atol=1e-6)


def test_classes_are_scored_by_their_margins_summed_over_the_steps() -> None:
    problem = objective(lambda x: x[..., :2], ("zero",), "classification")
    gradient = problem.class_gradient(torch.ones_like(X), 0, 0) * problem.normaliser.sqrt()[:, None, None]
    larger = X[..., 0] >= X[..., 1]
    sign = torch.where(larger, 1.0, -1.0)
    torch.testing.assert_close(gradient[..., 0], sign * X[..., 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient[..., 1], -sign * X[..., 1], rtol=1e-4, atol=1e-5)


def test_the_gradient_of_algorithm_1_by_hand() -> None:
    """f(X) is the sum of 1 and 2, cells fade to 0. Half of each is left by M = .5: f = 1.5, 2 (1.5 - 3) x = -3, -6.

    Without three quarters, M = .75 for deletion, f = .75: the same way with 2 (.75 - 3) x.
    """
    x = torch.tensor([[[1.0, 2.0]]])
    sums = BlackBox(lambda z: z.sum((1, 2)), "regression", "values")
    for deletion, kept in ((False, 0.5), (True, 0.25)):
        objective = PerturbationObjective.prepare(sums, batch_of(x), parse_operators(("zero",)), "squared", deletion)
        mask = torch.full_like(x, 1 - kept if deletion else kept)
        expected = 2 * (3 * kept - 3) * x
        torch.testing.assert_close(objective.error_gradient(mask, 0), expected)
