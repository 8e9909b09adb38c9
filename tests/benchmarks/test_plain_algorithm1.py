"""The slow reference does what Algorithm 1 says; the runner finds every benchmark."""

import pytest
import torch

from benchmarks.__main__ import as_rows, as_text, names
from benchmarks.plain_algorithm1 import fit, gaussian_blur, moving_average
from benchmarks.tasks import TASKS, Task, mimic_shaped, rare, state


def test_the_blur_is_the_identity_where_the_mask_is_one_and_an_average_elsewhere() -> None:
    x = torch.randn(30, 2)
    torch.testing.assert_close(gaussian_blur(x, torch.ones_like(x), 1.0), x)
    blurred = gaussian_blur(x, torch.zeros_like(x), 2.0)
    times = torch.arange(30.0)
    weights = torch.exp(-(times - 7).square() / 8)
    assert blurred[7, 1] == pytest.approx(float((weights * x[:, 1]).sum() / weights.sum()), abs=1e-3)


def test_the_moving_average_over_everything_is_the_mean() -> None:
    x = torch.randn(5, 3)
    torch.testing.assert_close(moving_average(x, torch.zeros_like(x)), x.mean(0).expand(5, 3))


def test_a_short_fit_finds_the_cell_that_the_model_reads() -> None:
    class Reader(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 10 * x[:, 3, 1:2]

    x = torch.randn(1, 6, 2, generator=torch.Generator().manual_seed(0))
    task = Task("one cell", Reader(), x, "regression", (1 / 12,), steps=100)
    mask = fit(task, x[0], 1 / 12, 100, 100)
    assert mask.argmax() == 3 * 2 + 1
    assert mask.min() >= 0
    assert mask.max() <= 1


@pytest.mark.parametrize(("make", "shape"), [(rare, (50, 50)), (state, (200, 3)), (mimic_shaped, (48, 31))])
def test_the_workloads_have_the_papers_shapes(make: object, shape: tuple[int, int]) -> None:
    assert make in TASKS
    assert make(2).x.shape == (2, *shape)  # type: ignore[operator]


def test_the_runner_finds_benchmarks_and_prints_rows() -> None:
    assert "plain_algorithm1" in names()
    assert "tasks" not in names()
    text = as_text(as_rows({"seconds": 1.23456, "note": "one row"}))
    assert "1.235" in text
    assert "note" in text
