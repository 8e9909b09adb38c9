"""On the synthetic hospital, where the salient cells are known, the masks find them, and find them best."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("torch")


@pytest.mark.slow
def test_masks_rank_the_planted_cells_clearly_better_than_integrated_gradients_and_chance(tmp_path: Path) -> None:
    from dynamask_mlflow.cli.demo_truth import find_truth
    from dynamask_mlflow.data import build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, load_truth, synthesize
    from dynamask_mlflow.tracking.model_settings import ModelSettings
    from dynamask_mlflow.tracking.sequence_model import SequenceModel
    from dynamask_mlflow.training import TrainConfig, fit

    folder = synthesize(tmp_path / "hospital", HospitalConfig(stays=4500, months=12, seed=11))
    dataset = build(open_source("synthetic", str(folder)))
    train, validation = dataset.part("train"), dataset.part("validation")
    fitted = fit((train.x, train.labels), (validation.x, validation.labels), TrainConfig(units=64))
    assert fitted.best.validation_auroc > 0.85
    settings = ModelSettings(task="classification", output="label", steps=48, channels=32)
    model = SequenceModel(fitted.model, settings, "cpu")
    found = find_truth(model, dataset.part("test"), load_truth(folder), limit=60)
    masks, gradients = found.scores["dynamask"], found.scores["integrated_gradients"]
    assert found.stays == 60
    assert masks["auroc"] > 0.95
    assert masks["auroc"] > gradients["auroc"]
    assert masks["auprc"] > gradients["auprc"] + 0.03
    assert found.wins > 0.6
    assert found.scores["random"]["auroc"] == pytest.approx(0.5, abs=0.03)
