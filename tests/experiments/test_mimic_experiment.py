"""Replacing the cells that a risk rests on moves it; replacing others does not."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dynamask_mlflow.experiments.mimic import AREAS, PRESETS, find_stays, mimic_experiment, replacement_scores
from dynamask_mlflow.experiments.protocol import Case
from dynamask_mlflow.masks.result import Masks


class LastSteps(torch.nn.Module):
    """The risk rests on the last three hours of channel 0: logit of class 1 is their sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = x[:, -3:, 0].sum(1)
        return torch.stack([torch.zeros_like(z), z], 1)


def masks_of(scores: np.ndarray) -> Masks:
    n = len(scores)
    return Masks(masks=scores, scores=scores, areas=np.ones(1), errors=np.zeros((n, 1)), area=np.ones(n))


@pytest.fixture
def case() -> Case:
    x = np.zeros((2, 30, 5), dtype=np.float32)
    x[:, -3:, 0] = np.array([2.0, 1.0], dtype=np.float32)[:, None]
    return Case(model=LastSteps(), x=x, truth=None, task="classification")


def test_the_right_cells_move_the_prediction_as_far_as_calculated(case: Case) -> None:
    right = np.zeros(case.x.shape, dtype=np.float32)
    right[:, -3:, 0] = 1
    values = replacement_scores(case, masks_of(right))
    # Three cells at their mean over 30 hours: z = 3 * (3 * 2 / 30) = .6 and .3; both stay in class 1.
    expected = np.log1p(np.exp(-np.array([0.6, 0.3]))).mean()
    assert values["ce/0.05"] == pytest.approx(expected, rel=1e-5)
    assert values["acc/0.05"] == 1
    # Each probability falls monotonically from z = 6, 3 to .6, .3 and is counted for both classes.
    fall = 1 / (1 + np.exp(-np.array([6.0, 3.0]))) - 1 / (1 + np.exp(-np.array([0.6, 0.3])))
    assert values["cpd/50"] == pytest.approx(2 * fall.mean(), rel=1e-5)
    assert values["cpp/50"] == 0
    assert {name.split("/")[1] for name in values if name.startswith("ce_batch/")} == {f"{a:g}" for a in AREAS}


def test_the_wrong_cells_move_nothing(case: Case) -> None:
    wrong = np.zeros(case.x.shape, dtype=np.float32)
    wrong[:, :, 1:] = 1
    values = replacement_scores(case, masks_of(wrong))
    assert values["cpd/100"] == 0
    assert values["cpp/50"] > 0


def test_a_batch_may_take_more_cells_from_one_instance(case: Case) -> None:
    scores = np.zeros(case.x.shape, dtype=np.float32)
    scores[0, :, 1] = 2
    scores[0, -3:, 0] = 3
    scores[1, -3:, 0] = 1
    values = replacement_scores(case, masks_of(scores))
    assert values["ce_batch/0.05"] < values["ce/0.05"]


def test_our_method_plays_both_games() -> None:
    experiment = mimic_experiment()
    assert experiment.default_methods == ("nested", "nested-deletion")
    assert experiment.preset("nested-deletion").options == {"deletion": True}
    assert PRESETS["paper"].options["operators"] == ("moving_average:48",)


def test_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="PhysioNet 2012, or with the tables of MIMIC-III, but got"):
        find_stays(tmp_path)
    (tmp_path / "ICUSTAYS.parquet").touch()
    assert find_stays(tmp_path).name == "MIMIC-III"
    (tmp_path / "events.parquet").touch()
    (tmp_path / "outcomes.csv").touch()
    assert find_stays(tmp_path).name == "PhysioNet 2012"
    assert find_stays().name == "synthetic hospital"
