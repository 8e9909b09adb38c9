"""On the synthetic hospital, where the salient cells are known, the masks find them best, at every risk."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("torch")

# A little below what was measured with this hospital and network.
LEAST_AUPRC = {".02-.1": 0.42, ".1-.3": 0.78, ".3-.5": 0.82, ".5-.8": 0.84, ".8-1": 0.86}
LEAST_PRECISION, LEAST_RECALL = 0.65, 0.7


@pytest.mark.slow
def test_masks_find_the_planted_cells_in_every_band_of_risk_better_than_integrated_gradients(tmp_path: Path) -> None:
    from dynamask_mlflow.cli.demo_truth import find_truth
    from dynamask_mlflow.data import build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, load_truth, synthesize
    from dynamask_mlflow.evaluation.model_settings import ModelSettings
    from dynamask_mlflow.evaluation.sequence_model import SequenceModel
    from dynamask_mlflow.training import TrainConfig, fit

    folder = synthesize(tmp_path / "hospital", HospitalConfig(stays=4500, months=12, seed=11))
    dataset = build(open_source("synthetic", str(folder)))
    train, validation = dataset.part("train"), dataset.part("validation")
    fitted = fit((train.x, train.labels), (validation.x, validation.labels), TrainConfig(units=64))
    assert fitted.best.validation_auroc > 0.85
    settings = ModelSettings(task="classification", output="label", steps=48, channels=32)
    model = SequenceModel(fitted.model, settings, "cpu")
    found = find_truth(model, dataset.part("test"), load_truth(folder))
    assert found.stays > 100
    assert set(found.bands) == set(LEAST_AUPRC)
    for name, band in found.bands.items():
        masks = band.scores["dynamask"]
        assert masks["auprc"] > LEAST_AUPRC[name], name
        for rival in ("integrated_gradients", "integrated_gradients_smoothed"):
            assert masks["auroc"] > band.scores[rival]["auroc"], (name, rival)
            assert masks["auprc"] > band.scores[rival]["auprc"] + 0.03, (name, rival)
        if name != ".02-.1":
            assert masks["auroc"] > 0.95, name
            assert masks["precision"] > LEAST_PRECISION, name
            assert masks["recall"] > LEAST_RECALL, name
    assert found.wins["integrated_gradients"] > 0.85
    assert found.wins["integrated_gradients_smoothed"] > 0.7
    assert found.overall.scores["random"]["auroc"] == pytest.approx(0.5, abs=0.03)
