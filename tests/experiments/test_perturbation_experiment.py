"""Masks of three operators are compared pair by pair."""

from pathlib import Path

import numpy as np
import pytest

from dynamask_mlflow.experiments.figures import draw_figures
from dynamask_mlflow.experiments.perturbation import agreement_scores, perturbation_experiment
from dynamask_mlflow.experiments.protocol import Case, run_experiment
from dynamask_mlflow.experiments.state import StateSetting
from dynamask_mlflow.experiments.training import Training
from dynamask_mlflow.masks.result import Masks

SMALL = StateSetting(series=60, train=50, steps=30, hidden=8, training=Training(epochs=3, learning_rate=1e-2))


def test_agreement_is_the_share_of_cells_with_one_answer() -> None:
    truth = np.zeros((1, 4, 2), dtype=np.bool_)
    truth[:, :2] = True
    by_operator = np.repeat(truth.astype(np.float32), 3, axis=0)
    by_operator[2] = 1 - by_operator[2]
    by_operator[1, 0, 0] = 0.4
    masks = Masks(
        masks=by_operator, scores=by_operator, areas=np.ones(1), errors=np.zeros((3, 1)), area=np.full(3, 0.5)
    )
    case = Case(model=None, x=np.zeros((1, 4, 2), dtype=np.float32), truth=truth, task="classification")
    values = agreement_scores(case, masks)
    assert values["agreement_gm"] == pytest.approx(7 / 8)
    assert values["agreement_gp"] == 0
    assert values["agreement_mp"] == pytest.approx(1 / 8)
    assert values["auroc_g"] == 1
    assert values["auroc_p"] == 0


def test_the_experiment_fits_each_operator_and_its_maps_can_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_CACHE", str(tmp_path))
    experiment = perturbation_experiment(SMALL)
    result = run_experiment(experiment, seeds=[0], instances=2)
    values = result.trials[0].metrics
    assert all(0 < values[name] <= 1 for name in experiment.columns)
    assert values["agreement_gm"] < 1
    paths = draw_figures("title", result, experiment.make_case(0, 2, False), tmp_path / "figures", "png")
    assert [path.name for path in paths] == ["perturbation-saliency-maps-1.png", "perturbation-saliency-maps-2.png"]
    assert all(path.stat().st_size > 1000 for path in paths)
