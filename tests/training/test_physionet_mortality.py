"""Real stays: PhysioNet 2012 through the long table, trained on 80 %, explained and evaluated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from open_data import open_data

pytest.importorskip("duckdb")
pytest.importorskip("torch")


@pytest.mark.slow
def test_a_gru_reaches_an_auroc_of_82_on_held_out_stays_and_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    from dynamask_mlflow.data import BuildConfig, build, open_source
    from dynamask_mlflow.tracking.dataset import from_sequences
    from dynamask_mlflow.training import train_and_register

    folder = open_data("physionet2012-set-a")
    source = open_source("long", str(folder / "events.parquet"), stays=str(folder / "outcomes.csv"))
    dataset = build(source, BuildConfig(features="physionet2012"))
    assert dataset.x.shape == (4000, 48, 41)
    assert dataset.labels.mean() == pytest.approx(0.1385, abs=1e-4)
    assert len(dataset.part("test")) == 800
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    try:
        done = train_and_register(dataset, registered_model_name="physionet", alias="champion")
        assert done.scores["auroc"] >= 0.82
        test = dataset.part("test")
        data = from_sequences(
            test.x, targets=test.labels.astype(np.int64), ids=test.ids.tolist(), channel_names=test.channel_names
        )
        with mlflow.start_run():
            result = mlflow.models.evaluate(
                "models:/physionet@champion",
                data,
                model_type="classifier",
                evaluators=["default", "dynamask"],
                evaluator_config={
                    "default": {"log_model_explainability": False},
                    "dynamask": {"instances": 16, "sampling": "risk", "progress": False},
                },
            )
        assert result.metrics["accuracy_score"] > 0.8
        assert result.metrics["dynamask/failures"] == 0
        assert result.metrics["dynamask/ce"] > result.metrics["dynamask/ce/random"]
    finally:
        mlflow.set_tracking_uri(before)
