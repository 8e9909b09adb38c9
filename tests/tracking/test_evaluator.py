"""The evaluator through `mlflow.models.evaluate`, on a store without a server."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from mlflow.exceptions import MlflowException
from mlflow.models import EvaluationResult, MetricThreshold
from small_networks import (
    NAMES,
    STEPS,
    GRUClassifier,
    Regressor,
    StepwiseClassifier,
    StepwiseRegressor,
    sequences,
)

import dynamask_mlflow

X, Y = sequences(30)
QUICK = {"instances": 6, "steps": 30, "images": 1, "curve_areas": [0.1, 0.5]}


def data(**options: Any) -> Any:
    return mlflow.data.from_sequences(X, **{"targets": Y, "channel_names": NAMES, "name": "stays", **options})


def evaluate(model: Any, dataset: Any = None, model_type: str = "classifier", **options: Any) -> EvaluationResult:
    return mlflow.models.evaluate(
        model,
        data() if dataset is None else dataset,
        model_type=model_type,
        evaluators="dynamask",
        evaluator_config={**QUICK, **options},
    )


def numbers(result: EvaluationResult) -> dict[str, float]:
    """What depends on the model, data and settings alone."""
    return {k: v for k, v in result.metrics.items() if k.startswith("dynamask/") and "seconds" not in k}


@pytest.fixture(scope="module")
def saved(network: GRUClassifier, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "gru"
    dynamask_mlflow.save_model(network, path, task="classification", input_example=X[:2], channel_names=NAMES)
    return str(path)


def test_every_way_to_name_a_model_gives_the_same_numbers(store: Path, network: GRUClassifier) -> None:
    with mlflow.start_run() as run:
        info = dynamask_mlflow.log_model(
            network, name="gru", task="classification", input_example=X[:2], registered_model_name="icu"
        )
    mlflow.MlflowClient().set_registered_model_alias("icu", "champion", "1")
    local = mlflow.artifacts.download_artifacts(info.model_uri, dst_path=str(store / "local"))
    ways = [
        "models:/icu/1",
        "models:/icu@champion",
        f"runs:/{run.info.run_id}/gru",
        f"models:/{info.model_id}",
        local,
        mlflow.pyfunc.load_model("models:/icu/1"),
    ]
    results = []
    for way in ways:
        with mlflow.start_run() as evaluation:
            results.append(numbers(evaluate(way)))
        stored = mlflow.get_run(evaluation.info.run_id)
        assert stored.data.metrics["dynamask/ce"] == results[-1]["dynamask/ce"]
        assert [m.model_id for m in stored.inputs.model_inputs] == [info.model_id]
    assert all(result == results[0] for result in results)
    linked = {m.key for m in mlflow.get_logged_model(info.model_id).metrics if m.dataset_digest == data().digest}
    assert {"dynamask/ce", "dynamask/ce/random", "dynamask/curve/ce", "dynamask/entropy"} <= linked


def test_loaded_objects_of_every_kind_are_taken(store: Path, network: GRUClassifier) -> None:
    with mlflow.start_run():
        info = dynamask_mlflow.log_model(network, name="gru", task="classification", input_example=X[:2])
    ours = dynamask_mlflow.load_model(info.model_uri)
    with mlflow.start_run() as run:
        both = mlflow.models.evaluate(
            ours,
            data(),
            model_type="classifier",
            evaluators=["default", "dynamask"],
            evaluator_config={"dynamask": QUICK},
        )
    assert both.metrics["accuracy_score"] > 0.8
    assert [m.model_id for m in mlflow.get_run(run.info.run_id).inputs.model_inputs] == [info.model_id]
    expected = numbers(evaluate(info.model_uri))
    for found in (both, evaluate(mlflow.pytorch.load_model(info.model_uri)), evaluate(network)):
        assert numbers(found)["dynamask/ce"] == pytest.approx(expected["dynamask/ce"], abs=1e-4)


@pytest.mark.parametrize("serialization", ["pt2", "pickle"])
def test_plain_pytorch_models_work(store: Path, network: GRUClassifier, saved: str, serialization: str) -> None:
    with mlflow.start_run():
        info = mlflow.pytorch.log_model(
            network,
            name="plain",
            input_example=X[:2],
            serialization_format=serialization,
            pip_requirements=["torch"],
        )
    result = evaluate(info.model_uri, model_type="sequence-classifier")
    assert numbers(result)["dynamask/ce"] == pytest.approx(numbers(evaluate(saved))["dynamask/ce"], abs=1e-4)


def test_without_naming_evaluators_both_the_default_and_ours_run(store: Path, saved: str) -> None:
    result = mlflow.models.evaluate(saved, data(), model_type="classifier", evaluator_config={"dynamask": QUICK})
    assert result.metrics["accuracy_score"] > 0.8
    assert result.metrics["dynamask/instances"] == 6


def test_our_own_model_types_need_no_targets_and_leave_the_default_evaluator_out(store: Path, saved: str) -> None:
    for evaluators in (None, ["default", "dynamask"]):
        result = mlflow.models.evaluate(
            saved,
            data(targets=None),
            model_type="sequence-classifier",
            evaluators=evaluators,
            evaluator_config={"dynamask": QUICK},
        )
        assert result.metrics["dynamask/instances"] == 6
        assert all(name.startswith("dynamask/") for name in result.metrics)


def test_ce_and_acc_are_what_replacing_the_salient_cells_by_their_mean_gives(
    store: Path, saved: str, network: GRUClassifier
) -> None:
    result = evaluate(saved, sampling="first")
    masks = result.artifacts["dynamask_masks"].content
    table = result.tables["dynamask_instances"]
    for i in range(6):
        count = int(np.floor(masks.area[i] * X[i].size + 0.5))
        worst = np.sort(masks.scores[i].ravel())[-count:].min()
        x = X[i].copy()
        salient = masks.scores[i] >= worst
        assert salient.sum() == count
        x[salient] = np.broadcast_to(X[i].mean(axis=0), x.shape)[salient]
        with torch.no_grad():
            before = network(torch.as_tensor(X[i : i + 1])).softmax(-1)[0]
            after = network(torch.as_tensor(x[None])).softmax(-1)[0]
        kept = before.argmax()
        assert table["ce"][i] == pytest.approx(-float(after[kept].log()), abs=1e-4)
        assert table["flipped"][i] == bool(after.argmax() != kept)
    assert result.metrics["dynamask/ce"] == pytest.approx(table["ce"].mean(), abs=1e-5)
    assert result.metrics["dynamask/acc"] == pytest.approx(1 - table["flipped"].mean())


def test_masks_of_a_regression_find_the_channel_that_counts(store: Path, tmp_path: Path) -> None:
    dynamask_mlflow.save_model(Regressor(), tmp_path / "m", task="regression", input_example=X[:2])
    targets = X[:, -3:, 1].sum(axis=1)
    result = mlflow.models.evaluate(
        str(tmp_path / "m"),
        data(targets=targets),
        model_type="regressor",
        evaluators=["default", "dynamask"],
        evaluator_config={"dynamask": {**QUICK, "steps": 100}},
    )
    assert result.metrics["mean_squared_error"] == pytest.approx(0, abs=1e-6)
    assert result.metrics["dynamask/squared_error"] > 2 * result.metrics["dynamask/squared_error/random"]
    assert "dynamask/ce" not in result.metrics
    profile = result.artifacts["dynamask_profile"].content
    assert profile["channels"][int(np.argmax(profile["by_channel"]))] == "Lactate"


@pytest.mark.parametrize(
    ("network", "task", "targets"),
    [
        (StepwiseClassifier(), "classification", (X[:, :, 1] > 0).astype(int)),
        (StepwiseRegressor(), "regression", X[:, :, 1]),
    ],
)
def test_targets_and_answers_at_every_step(
    store: Path, tmp_path: Path, network: torch.nn.Module, task: str, targets: np.ndarray
) -> None:
    dynamask_mlflow.save_model(network, tmp_path / "m", task=task, input_example=X[:2])
    kind = {"classification": "sequence-classifier", "regression": "sequence-regressor"}[task]
    lengths = np.full(len(X), STEPS)
    lengths[::2] = 6
    result = evaluate(str(tmp_path / "m"), data(targets=targets, lengths=lengths), kind)
    table = result.tables["dynamask_instances"]
    assert len(table["prediction"][0]) == STEPS
    masks = result.artifacts["dynamask_masks"].content.masks
    short = [i for i, name in enumerate(table["id"]) if int(name) % 2 == 0]
    assert short
    assert masks[short, 6:].max() == 0


def test_the_old_name_of_evaluate_works_and_no_evaluator_need_be_named(store: Path, saved: str) -> None:
    with pytest.warns(FutureWarning):
        result = mlflow.evaluate(saved, data(), model_type="classifier", evaluator_config=QUICK)
    assert result.metrics["accuracy_score"] > 0.8
    assert result.metrics["dynamask/instances"] == 6


@pytest.mark.parametrize("kind", ["classifier", "sequence-classifier"])
def test_targets_at_every_step_beside_the_default_evaluator_work_or_say_what_does(
    store: Path, tmp_path: Path, kind: str
) -> None:
    dynamask_mlflow.save_model(StepwiseClassifier(), tmp_path / "m", task="classification", input_example=X[:2])
    options: Any = {"evaluators": ["default", "dynamask"], "evaluator_config": {"dynamask": QUICK}}
    targets = data(targets=(X[:, :, 1] > 0).astype(int))
    if kind == "classifier":
        with pytest.raises(MlflowException, match=r"shape \(30, 10\)\. Evaluate with model_type='sequence-classifier'"):
            mlflow.models.evaluate(str(tmp_path / "m"), targets, model_type=kind, **options)
    else:
        result = mlflow.models.evaluate(str(tmp_path / "m"), targets, model_type=kind, **options)
        assert result.metrics["dynamask/instances"] == 6


def test_a_plain_function_gets_one_warning_and_the_default_evaluator_goes_on(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def model(table: pd.DataFrame) -> np.ndarray:
        return np.array([int(row[-3:, 1].mean() > 0) for row in table["sequence"]])

    with caplog.at_level(logging.WARNING):
        result = mlflow.models.evaluate(model, data(), model_type="classifier", evaluators=["default", "dynamask"])
    assert result.metrics["accuracy_score"] == 1.0
    assert not numbers(result)
    said = [r.getMessage() for r in caplog.records if r.name.startswith("dynamask_mlflow")]
    assert len(said) == 1
    assert "a plain function or an endpoint answers with predictions only" in said[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"instanses": 3}, r"Unknown key 'instanses'\. Did you mean 'instances'"),
        ({"instances": 0}, "Expected instances >= 1"),
        ({"ids": ["nobody"]}, "1 of 1 are not among its 30: 'nobody'"),
        ({"method": "magic"}, "magic.*nested"),
        ({"operators": ["sharpen:3"]}, "sharpen"),
    ],
)
def test_bad_settings_are_named(store: Path, saved: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MlflowException, match=f"dynamask: .*{message}"):
        evaluate(saved, **options)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (lambda: data(channel_names=[*NAMES[1:], NAMES[0]]), "channel 0 is 'Lactate' instead of 'HeartRate'"),
        (lambda: mlflow.data.from_sequences(X[:, :, :3], targets=Y), r"\(10, 4\), as the model takes .* \(10, 3\)"),
        (lambda: mlflow.data.from_sequences(X[:, :5], targets=Y), r"\(10, 4\), as the model takes .* \(5, 4\)"),
    ],
)
def test_data_that_do_not_fit_the_model_are_named(store: Path, saved: str, dataset: Any, message: str) -> None:
    with pytest.raises(MlflowException, match=message):
        evaluate(saved, dataset())


def test_a_model_type_against_the_models_task_is_named(store: Path, saved: str) -> None:
    with pytest.raises(MlflowException, match=r"Expected a model_type for classification, .* 'regressor'"):
        evaluate(saved, model_type="regressor")


class FailsOnLarge(GRUClassifier):
    """Not a number where a value is absurd: a model that fails on some stays."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        absurd = x.abs().amax(dim=(1, 2))[:, None] > 100
        return super().forward(x) + torch.where(absurd, torch.nan, 0.0)


def test_instances_on_which_the_model_fails_are_counted_and_named(store: Path, tmp_path: Path) -> None:
    dynamask_mlflow.save_model(FailsOnLarge(), tmp_path / "m", task="classification", input_example=X[:2])
    bad = ["4", "11", "29"]
    x = X.copy()
    x[[4, 11, 29], 5, 2] = 1e4
    result = evaluate(str(tmp_path / "m"), mlflow.data.from_sequences(x, targets=Y), instances=None)
    assert result.metrics["dynamask/failures"] == 3
    assert result.metrics["dynamask/instances"] == 27
    record = result.artifacts["dynamask_config"].content
    assert sorted(record["failures"]) == sorted(bad)
    assert set(record["ids"]).isdisjoint(bad)


def test_a_model_that_fails_on_everything_is_an_error_and_leaves_nothing_behind(store: Path, tmp_path: Path) -> None:
    dynamask_mlflow.save_model(FailsOnLarge(), tmp_path / "m", task="classification", input_example=X[:2])
    with mlflow.start_run() as run, pytest.raises(MlflowException, match="NaN or infinity"):
        evaluate(str(tmp_path / "m"), mlflow.data.from_sequences(np.full_like(X, 1e4), targets=Y))
    assert mlflow.MlflowClient().list_artifacts(run.info.run_id) == []


def test_one_instance_of_constant_series_with_a_name_full_of_markup(store: Path, saved: str) -> None:
    name = '../<img src=x onerror="alert(1)">'
    one = mlflow.data.from_sequences(np.ones((1, *X.shape[1:])), targets=[1], ids=[name])
    result = evaluate(saved, one)
    assert result.metrics["dynamask/instances"] == 1
    assert np.isfinite(list(numbers(result).values())).all()
    assert result.tables["dynamask_instances"]["id"].tolist() == [name]
    paths = [artifact.uri for artifact in result.artifacts.values()]
    assert not any("<" in path or ".." in path for path in paths)
    assert "<img" not in result.artifacts["dynamask_report"].content


def test_artifacts_hold_no_raw_values_unless_asked_and_no_ids_if_hashed(
    store: Path, saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMASK_ID_SALT", "pepper")
    ids = [f"patient-{i}" for i in range(len(X))]
    with mlflow.start_run() as run:
        result = evaluate(saved, data(ids=ids), hash_ids=True, ids=ids[:3], images=3)
    root = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, dst_path=str(store / "got")))
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(files) == 8
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
    for name, artifact in result.artifacts.items():
        fresh = type(artifact)(uri=artifact.uri)
        assert fresh.content is not None, name


def test_the_same_seed_gives_the_same_masks(store: Path, saved: str) -> None:
    first, second, other = (
        evaluate(saved, seed=seed, ids=["1", "2"]).artifacts["dynamask_masks"].content.masks for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


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

    monkeypatch.setattr("dynamask_mlflow.tracking.artifacts.render_report", broken)
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
