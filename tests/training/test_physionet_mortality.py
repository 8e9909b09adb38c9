"""Real stays: PhysioNet 2012 through the long table, trained on 80 %, explained, evaluated, and its report read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from open_data import open_data
from pages import read_file
from stores import new_store

pytest.importorskip("duckdb")
pytest.importorskip("torch")

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Evaluated:
    """What training and evaluation found, and the report."""

    auroc: float
    metrics: dict[str, float]
    report: Path


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluated]:
    import mlflow

    from dynamask_mlflow.data import BuildConfig, build, open_source
    from dynamask_mlflow.tracking.dataset import from_sequences
    from dynamask_mlflow.training import train_and_register

    data = open_data("physionet2012-set-a")
    source = open_source("long", str(data / "events.parquet"), stays=str(data / "outcomes.csv"))
    dataset = build(source, BuildConfig(features="physionet2012"))
    assert dataset.x.shape == (4000, 48, 41)
    assert dataset.labels.mean() == pytest.approx(0.1385, abs=1e-4)
    assert len(dataset.part("test")) == 800
    folder = tmp_path_factory.mktemp("physionet")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(new_store(folder))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            done = train_and_register(dataset, registered_model_name="physionet", alias="champion")
            settings = {"instances": 16, "sampling": "risk", "change_since": 24, "log_inputs": True, "progress": False}
            with mlflow.start_run() as run:
                result = mlflow.models.evaluate(
                    "models:/physionet@champion",
                    from_sequences(**dataset.part("test").sequence_arrays(observed=False)),
                    model_type="classifier",
                    evaluators=["default", "dynamask"],
                    evaluator_config={"default": {"log_model_explainability": False}, "dynamask": settings},
                )
            address = f"runs:/{run.info.run_id}/dynamask/report.html"
            report = Path(mlflow.artifacts.download_artifacts(address, dst_path=str(folder)))
        yield Evaluated(done.scores["auroc"], result.metrics, report)
    finally:
        mlflow.set_tracking_uri(before)


def test_a_gru_reaches_an_auroc_of_82_on_held_out_stays_and_is_explained(evaluated: Evaluated) -> None:
    assert evaluated.auroc >= 0.82
    assert evaluated.metrics["accuracy_score"] > 0.8
    assert evaluated.metrics["dynamask/failures"] == 0
    assert evaluated.metrics["dynamask/ce"] > evaluated.metrics["dynamask/ce/random"]


@pytest.mark.browser
def test_its_report_is_read_by_keyboard_without_a_complaint_or_a_violation(evaluated: Evaluated, watch: Any) -> None:
    assert '"course":null' not in evaluated.report.read_text(encoding="utf-8")  # with the slider of what changed
    assert read_file(watch, evaluated.report) == []
