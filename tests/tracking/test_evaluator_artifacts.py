"""What an evaluation leaves behind, and what can be done with it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from mlflow.models import EvaluationResult, MetricThreshold
from small_evaluations import X, data, evaluate
from small_networks import (
    STEPS,
)


def test_artifacts_hold_no_raw_values_unless_asked_and_no_ids_if_hashed(
    store: Path, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_ID_SALT", "pepper")
    ids = [f"patient-{i}" for i in range(len(X))]
    with mlflow.start_run() as run:
        result = evaluate(saved, data(ids=ids), hash_ids=True, ids=ids[:3], images=3)
    root = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=str(store / "got")))
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(files) == 9
    for path in files:
        assert "patient" not in path.name
        assert b"patient-" not in path.read_bytes()
    assert len(set(result.tables["dynamask_instances"]["id"])) == 3
    page = result.artifacts["dynamask_report"].content
    assert 'id="blob-inputs"' not in page
    arrays = np.load(root / "dynamask" / "masks.npz", allow_pickle=False)
    explained = X[:3].reshape(3, -1)
    for name in arrays.files:
        assert not np.isin(explained, arrays[name]).all(), name
    with_inputs = evaluate(saved, data(ids=ids), ids=ids[:3], log_inputs=True).artifacts["dynamask_report"].content
    assert 'id="blob-inputs"' in with_inputs


def test_masks_of_a_model_with_random_weights_are_other_masks(store: Path, saved: str) -> None:
    result = evaluate(saved, sanity_instances=4)
    assert -1 <= result.metrics["dynamask/sanity_similarity"] < 0.9


def test_several_methods_at_once(store: Path, saved: str) -> None:
    result = evaluate(saved, methods=["nested", "paper"])
    assert result.metrics["dynamask/ce"] == result.metrics["dynamask/nested/ce"]
    assert result.metrics["dynamask/paper/ce"] != result.metrics["dynamask/nested/ce"]
    assert result.artifacts["dynamask_masks_paper"].content.masks.shape == (6, STEPS, 4)


def test_results_survive_save_and_load(store: Path, saved: str) -> None:
    result = evaluate(saved)
    result.save(str(store / "result"))
    again = EvaluationResult.load(str(store / "result"))
    assert again.metrics == result.metrics
    assert set(again.artifacts) == set(result.artifacts)
    np.testing.assert_array_equal(
        again.artifacts["dynamask_masks"].content.masks, result.artifacts["dynamask_masks"].content.masks
    )


def test_contents_come_from_the_store_when_they_are_not_in_memory(store: Path, saved: str) -> None:
    result = evaluate(saved)
    fresh = {name: type(artifact)(uri=artifact.uri).content for name, artifact in result.artifacts.items()}
    assert {"dynamask_masks", "dynamask_report", "dynamask_instances"} <= fresh.keys()
    for name, artifact in result.artifacts.items():
        assert type(fresh[name]) is type(artifact.content), name
    masks, page = result.artifacts["dynamask_masks"].content, result.artifacts["dynamask_report"].content
    np.testing.assert_array_equal(fresh["dynamask_masks"].masks, masks.masks)
    assert fresh["dynamask_report"] == page


def test_the_same_seed_gives_the_same_masks(store: Path, saved: str) -> None:
    first, second = (evaluate(saved, seed=3, ids=["1", "2"]).artifacts["dynamask_masks"].content for _ in range(2))
    np.testing.assert_array_equal(first.masks, second.masks)
    np.testing.assert_array_equal(first.scores, second.scores)


def test_a_promotion_can_be_gated_on_our_metrics(store: Path, saved: str) -> None:
    result = evaluate(saved)
    easy = MetricThreshold(threshold=result.metrics["dynamask/ce"] / 2, greater_is_better=True)
    mlflow.validate_evaluation_results(validation_thresholds={"dynamask/ce": easy}, candidate_result=result)
    hard = MetricThreshold(threshold=result.metrics["dynamask/ce"] * 2, greater_is_better=True)
    with pytest.raises(Exception, match="dynamask/ce"):
        mlflow.validate_evaluation_results(validation_thresholds={"dynamask/ce": hard}, candidate_result=result)


def test_the_record_vouches_for_every_other_file(store: Path, saved: str) -> None:
    with mlflow.start_run() as run:
        result = evaluate(saved)
    root = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=str(store / "got")))
    record = json.loads((root / "dynamask" / "config.json").read_text())
    there = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert there == {*record["files"], "dynamask/config.json"}
    for name, expected in record["files"].items():
        assert hashlib.sha256((root / name).read_bytes()).hexdigest() == expected
    assert record["dataset"] == {"name": "stays", "digest": data().digest, "instances": 30}
    assert record["settings"]["steps"] == 30
    assert record["ids"] == result.tables["dynamask_instances"]["id"].astype(str).tolist()


def test_a_page_that_cannot_be_drawn_does_not_cost_the_masks(
    store: Path, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(page: Any) -> str:
        raise RuntimeError("no ink")

    monkeypatch.setattr("dynamask_mlflow.evaluation.results.render_report", broken)
    result = evaluate(saved)
    assert "dynamask_report" not in result.artifacts
    assert len(result.artifacts["dynamask_masks"].content) == 6


def test_the_page_can_list_fewer_instances_than_were_explained(store: Path, saved: str) -> None:
    result = evaluate(saved, report_instances=2)
    page = result.artifacts["dynamask_report"].content
    assert "The page lists 2 of 6 instances" in page
    assert len(result.artifacts["dynamask_masks"].content) == 6


def test_no_spool_is_left_after_success(store: Path, saved: str) -> None:
    evaluate(saved, spool=str(store / "spool"))
    assert list((store / "spool").iterdir()) == []
