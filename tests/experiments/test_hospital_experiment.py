"""The hospital experiment: scores over all stays and by band of predicted risk, without channels that never change."""

import itertools

import numpy as np
import pytest

from dynamask_mlflow.experiments import hospital
from dynamask_mlflow.experiments.hospital import BANDS, COLUMNS, planted_scores
from dynamask_mlflow.experiments.protocol import Case
from dynamask_mlflow.masks.result import Masks


def test_scores_are_told_for_all_stays_and_for_each_band_that_has_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hospital, "predict", lambda model, x: np.array([0.2, 0.9]))
    truth = np.array([[[1, 0], [0, 0]], [[1, 0], [0, 0]]], dtype=bool)
    scores = np.array([[[3, 2], [1, 0]], [[0, 3], [2, 1]]], dtype=np.float32)
    # The second channel takes no part: in the second stay the salient cell is the last of two.
    counted = np.broadcast_to([True, False], truth.shape)
    case = Case(None, np.zeros(truth.shape, np.float32), truth, "classification", counted=counted)
    marked = np.array([[[1, 1], [0, 0]], [[0, 0], [1, 0]]], dtype=np.float32)
    masks = Masks(marked, scores, np.array([0.5]), np.zeros((2, 1)), np.full(2, 0.5))
    found = planted_scores(case, masks)
    assert found["auroc"] == 0.5
    assert (found["auroc/.1-.3"], found["auprc/.1-.3"], found["precision/.1-.3"], found["recall/.1-.3"]) == (1, 1, 1, 1)
    assert (found["auroc/.8-1"], found["auprc/.8-1"], found["recall/.8-1"]) == (0, 0.5, 0)
    assert found["stays/.1-.3"] == 1
    assert "auroc/.3-.5" not in found
    assert {name for name in found if "/" not in name} < set(COLUMNS)


def test_bands_do_not_overlap() -> None:
    limits = list(BANDS.values())
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(limits))
