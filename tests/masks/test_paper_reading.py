"""Algorithm 1, one step by hand in both readings, and what it does where the paper's text is silent."""

import numpy as np
import pytest
import torch

from dynamask_mlflow.masks.explain import explain

WEIGHTS = torch.tensor([[0.4, -0.1, 0.2, 0.3]]).T
X = torch.tensor([[[1.0], [2.0], [0.5], [1.0]]])


def risk(x: torch.Tensor) -> torch.Tensor:
    z = (x * WEIGHTS).sum((1, 2))
    return torch.stack([torch.zeros_like(z), z], 1)


def first_step(loss: str, reduction: str) -> np.ndarray:
    masks = explain(
        risk,
        X,
        method="paper",
        output="logits",
        operators=("zero",),
        area=0.25,
        loss=loss,
        reduction=reduction,
        steps=1,
        learning_rate=0.1,
        progress=False,
    )
    return masks.masks[0]


@pytest.mark.parametrize(
    ("loss", "reduction", "terms", "cells"),
    [
        ("cross_entropy", "sum", 1, 1),
        ("log_loss", "sum", 1, 1),
        ("cross_entropy", "mean", 2, 4),
        ("log_loss", "mean", 1, 4),
    ],
)
def test_one_step_is_the_gradient_of_the_text_or_of_the_released_code(
    loss: str, reduction: str, terms: int, cells: int
) -> None:
    part = (WEIGHTS * X[0]).numpy()
    p, p0 = 1 / (1 + np.exp(-part.sum() / 2)), 1 / (1 + np.exp(-part.sum()))
    wanted = 1.0 if loss == "log_loss" else p0
    error = (p - wanted) * part
    # One of four equal cells is wanted: each has a quarter of it.
    size = 0.1 * 2 * (0.5 - 0.25)
    expected = 0.5 - 0.1 * (error / terms + size / cells)
    np.testing.assert_allclose(first_step(loss, reduction), expected, rtol=1e-5)


def test_where_no_error_is_below_epsilon_the_lowest_one_chooses() -> None:
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    options = {"task": "regression", "method": "paper", "areas": (0.05, 0.2, 0.1), "steps": 50, "progress": False}
    model = lambda v: v.square().sum((1, 2))  # noqa: E731
    missed = explain(model, x, area="extremal", epsilon=1e-9, **options)
    best = explain(model, x, area="best", **options)
    assert missed.diagnostics["epsilon_missed"].all()
    np.testing.assert_array_equal(missed.area, best.area)


def test_one_series_by_itself_is_fitted_as_among_others() -> None:
    x = torch.randn(3, 6, 3, generator=torch.Generator().manual_seed(0))
    options = {"task": "regression", "method": "paper", "steps": 20, "progress": False}
    model = lambda v: v.square().sum((1, 2))  # noqa: E731
    np.testing.assert_array_equal(explain(model, x[1:2], **options).masks, explain(model, x, **options).masks[1:2])


def test_answers_at_every_step_may_come_in_any_layout() -> None:
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    options = {"method": "paper", "steps": 3, "progress": False}
    plain = explain(lambda v: v[..., :2].contiguous(), x, **options)
    transposed = explain(lambda v: v[..., :2].transpose(1, 2).contiguous().transpose(1, 2), x, **options)
    np.testing.assert_array_equal(transposed.masks, plain.masks)
