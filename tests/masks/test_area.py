"""Rules of area."""

import pytest
import torch

from dynamask_mlflow.masks.area import best_area, extremal_area, log_grid, penalized_area


def test_rules_of_area() -> None:
    areas = torch.tensor([[0.1, 0.2, 0.4, 0.8]])
    distances = torch.tensor([[0.9, 0.3, 0.1, 0.1]])
    assert best_area(areas, distances).item() == pytest.approx(0.4)
    assert penalized_area(areas, distances)[0].item() == pytest.approx(0.2)
    area, missed = extremal_area(areas, distances, 0.35)
    assert (area.item(), missed.item()) == (pytest.approx(0.2), False)
    area, missed = extremal_area(areas, distances, 0.05)
    assert (area.item(), missed.item()) == (pytest.approx(0.8), True)


def test_a_dearer_cell_makes_a_smaller_mask() -> None:
    areas, distances = torch.tensor([[0.1, 0.2, 0.4]]), torch.tensor([[0.5, 0.3, 0.05]])
    assert penalized_area(areas, distances, 1.0)[0].item() == pytest.approx(0.4)
    area, cost = penalized_area(areas, distances, 1.8)
    assert area.item() == pytest.approx(0.2)
    assert cost.item() == pytest.approx(0.3 + 1.8 * 0.2)


def test_the_penalized_area_zooms_in_on_the_knee_of_the_curve() -> None:
    areas = torch.tensor([[0.01, 0.1, 1.0]])

    def curve(a: torch.Tensor) -> torch.Tensor:
        return (1 - a / 0.03).clamp(min=0)

    area, _ = penalized_area(areas, curve(areas), 1.0, curve, zooms=8)
    assert area.item() == pytest.approx(0.03, rel=0.05)


def test_a_logarithmic_grid() -> None:
    assert log_grid(0.01, 1.0, 3) == pytest.approx((0.01, 0.1, 1.0))
    assert log_grid(0.2, 0.7, 1) == (0.2,)
