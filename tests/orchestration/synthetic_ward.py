"""The synthetic hospital at small size, with a model trained on its first year, in a sqlite MLflow."""

from __future__ import annotations

from pathlib import Path

from stores import new_store

MODEL = "hospital-risk"
STAYS = 1600


def make_hospital(root: Path) -> None:
    """Tables, dataset, a small GRU, registered as champion."""
    import mlflow
    from small_ward import open_registry

    import dynamask_mlflow
    from dynamask_mlflow.data import BuildConfig, build, open_source
    from dynamask_mlflow.data.hospital import HospitalConfig, synthesize
    from dynamask_mlflow.training.config import TrainConfig
    from dynamask_mlflow.training.loop import fit

    tables = synthesize(root / "tables", HospitalConfig(stays=STAYS))
    dataset = build(
        open_source("synthetic", str(tables)), BuildConfig(until="2023-12", shares=(0.5, 0.1, 0.4), threads=1)
    )
    dataset.save(root / "data")
    parts = [dataset.part(split) for split in ("train", "validation")]
    trained = fit(
        (parts[0].x, parts[0].labels),
        (parts[1].x, parts[1].labels),
        TrainConfig(units=16, epochs=6, patience=6, seed=0, threads=1),
    )
    open_registry(new_store(root), root / "artifacts")
    with mlflow.start_run():
        dynamask_mlflow.log_model(
            trained.model.eval(),
            name="model",
            task="classification",
            input_example=parts[0].x[:2],
            channel_names=dataset.channel_names,
            times=list(dataset.times),
            registered_model_name=MODEL,
        )
    mlflow.MlflowClient().set_registered_model_alias(MODEL, "champion", "1")
