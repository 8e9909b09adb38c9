"""The evaluator through `mlflow.models.evaluate`, on a store without a server."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from small_evaluations import QUICK, X, data, evaluate, numbers
from small_networks import (
    STEPS,
    GRUClassifier,
    Regressor,
    StepwiseClassifier,
    StepwiseRegressor,
)

import dynamask_mlflow


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
def test_targets_at_every_step_leave_the_default_evaluator_out_with_one_line(
    store: Path, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    dynamask_mlflow.save_model(StepwiseClassifier(), tmp_path / "m", task="classification", input_example=X[:2])
    options: Any = {"evaluators": ["default", "dynamask"], "evaluator_config": {"dynamask": QUICK}}
    targets = data(targets=(X[:, :, 1] > 0).astype(int))
    with caplog.at_level(logging.WARNING):
        result = mlflow.models.evaluate(str(tmp_path / "m"), targets, model_type=kind, **options)
    assert result.metrics["dynamask/instances"] == 6
    left_out = "default evaluator is left out: it wants one target for each sequence, but got targets of shape (30, 10)"
    assert caplog.text.count(left_out) == (kind == "classifier")


def test_a_plain_function_of_labels_is_explained_beside_the_default_evaluator(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def model(table: pd.DataFrame) -> np.ndarray:
        return np.array([int(row[-3:, 1].mean() > 0) for row in table["sequence"]])

    with caplog.at_level(logging.WARNING):
        result = mlflow.models.evaluate(
            model,
            data(),
            model_type="classifier",
            evaluators=["default", "dynamask"],
            evaluator_config={"dynamask": {**QUICK, "forward_budget": 120}},
        )
    assert result.metrics["accuracy_score"] == 1.0
    masks = result.artifacts["dynamask_masks"].content.masks
    assert masks[:, -3:, 1].sum() > 0.5 * masks.sum()
    said = [r.getMessage() for r in caplog.records if r.name.startswith("dynamask_mlflow")]
    said = [text for text in said if "never uploaded" not in text]  # what other runs left in the temporary folder
    assert len(said) == 2
    assert "labels alone" in said[0]
    assert "a plain function or an endpoint answers with predictions only" in said[1]


def test_targets_and_classes_go_by_their_names(store: Path, network: GRUClassifier) -> None:
    names = ["survives", "dies"]
    labels = {"class_names": names}
    info = dynamask_mlflow.log_model(network, name="gru", task="classification", input_example=X[:2], labels=labels)
    told = data()
    by_name = mlflow.data.from_sequences(told.features, targets=[names[int(y)] for y in told.targets])
    asked = {"default": {"log_model_explainability": False}, "dynamask": {**QUICK, "target": "dies"}}
    result = mlflow.models.evaluate(
        info.model_uri, by_name, model_type="classifier", evaluators=["default", "dynamask"], evaluator_config=asked
    )
    by_number = mlflow.models.evaluate(
        info.model_uri, told, model_type="classifier", evaluators=["default", "dynamask"], evaluator_config=asked
    )
    assert result.metrics["accuracy_score"] == by_number.metrics["accuracy_score"] > 0.8
    assert result.metrics["dynamask/ce"] == by_number.metrics["dynamask/ce"]
    table = by_number.tables["dynamask_instances"]
    assert set(table["prediction"]) <= set(names)
    assert table["prediction"].tolist() == [names[int(risk >= 0.5)] for risk in table["probability"]]
    assert table["target"].tolist() == [names[int(told.targets[int(row)])] for row in table["id"]]
    assert result.tables["dynamask_instances"]["target"].tolist() == table["target"].tolist()


def test_targets_by_name_without_names_of_classes_leave_the_default_evaluator_out_with_one_line(
    store: Path, saved: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = data()
    by_name = mlflow.data.from_sequences(told.features, targets=[f"class {y}" for y in told.targets])
    result = mlflow.models.evaluate(saved, by_name, model_type="classifier", evaluator_config={"dynamask": QUICK})
    assert result.metrics["dynamask/instances"] == 6
    assert "labels={'class_names': [...]}" in caplog.text
