"""What changed since, asked of a logged model; and parameters that nobody knows."""

import json
from pathlib import Path

import mlflow
import numpy as np
import pytest
import torch
from mlflow.exceptions import MlflowException
from small_evaluations import evaluate, saved_classifier
from small_networks import CHANNELS, NAMES, STEPS, GRUClassifier, sequences

import dynamask_mlflow
from dynamask_mlflow.evaluation.changes import require_changes
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.forward_only import ForwardOnly

X, _ = sequences(3)
HOURS = [float(6 * step) for step in range(STEPS)]
FILLED = {"fill": ["forward"] * CHANNELS}


@pytest.fixture(scope="module")
def saved(network: GRUClassifier, tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved_classifier(network, tmp_path_factory, times=HOURS, preprocessing=FILLED)


def test_a_logged_model_tells_what_changed(saved: str, network: GRUClassifier) -> None:
    rows = mlflow.pyfunc.load_model(saved).predict(X, params={"explain_change": True, "since": HOURS[STEPS // 2]})
    expected = dynamask_mlflow.explain_change(
        network, X, since=STEPS // 2, padding="carry", progress=False, device="cpu"
    )
    moved = (rows["after"] - rows["before"]).to_numpy()
    np.testing.assert_allclose(moved, expected.change, atol=1e-4)
    shares = np.array(rows["attributions"].tolist())
    np.testing.assert_allclose(shares.sum(axis=(1, 2)) + rows["elapsed"], moved, atol=1e-3)
    assert set(rows["direction"]) <= {"raised", "lowered", "unchanged"}
    assert rows["since"].tolist() == [STEPS // 2] * 3
    assert np.array(rows["probability"].tolist()).shape == (3, 2)
    assert rows["channel_names"][0] == list(NAMES)
    assert rows["times"][0] == HOURS


def test_wrong_questions_are_refused(saved: str) -> None:
    model = mlflow.pyfunc.load_model(saved)
    with pytest.raises(MlflowException, match="Did you mean 'area'"):
        model.predict(X, params={"explain": True, "aera": 0.1})
    with pytest.raises(MlflowException, match="Did you mean 'since'"):
        model.predict(X, params={"explain_change": True, "sinse": 24})
    with pytest.raises(ValueError, match="Expected `since`"):
        model.predict(X, params={"explain_change": True})
    with pytest.raises(ValueError, match="Expected explain_change with since"):
        model.predict(X, params={"explain": True, "since": 6.0})
    with pytest.raises(ValueError, match="at least one step before `since`"):
        model.predict(X, params={"explain_change": True, "since": -1.0})


def test_a_window_without_known_padding_is_refused_with_the_way_out(network: GRUClassifier, tmp_path: Path) -> None:
    dynamask_mlflow.save_model(network, tmp_path / "m", task="classification", input_example=X[:2])
    model = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    with pytest.raises(ValueError, match="Pass padding"):
        model.predict(X, params={"explain_change": True, "since": 3.0})
    rows = model.predict(X, params={"explain_change": True, "since": 3.0, "padding": "0"})
    assert rows["since"].tolist() == [3, 3, 3]


@pytest.mark.parametrize("padding", ["carry", 0.0, [0.0] * CHANNELS])
def test_a_model_is_logged_with_the_padding_of_its_training(
    padding: object, network: GRUClassifier, tmp_path: Path
) -> None:
    path = tmp_path / "m"
    dynamask_mlflow.save_model(network, path, task="classification", input_example=X[:2], padding=padding)
    found = dynamask_mlflow.load_model(str(path), device="cpu").explain_change(X, since=3, progress=False)
    expected = dynamask_mlflow.explain_change(network, X, since=3, padding=padding, progress=False, device="cpu")
    np.testing.assert_allclose(found.change, expected.change, atol=1e-5)


def test_padding_and_threshold_are_checked_when_a_model_is_saved(network: GRUClassifier, tmp_path: Path) -> None:
    for wrong, words in (({"padding": "zeros"}, "Expected padding"), ({"threshold": 1.5}, "Expected threshold")):
        with pytest.raises(ValueError, match=words):
            dynamask_mlflow.save_model(network, tmp_path / "m", task="classification", input_example=X[:2], **wrong)


def test_the_threshold_of_the_model_is_that_of_the_report(network: GRUClassifier, tmp_path: Path) -> None:
    path = tmp_path / "m"
    dynamask_mlflow.save_model(network, path, task="classification", input_example=X[:2], threshold=0.15)
    for given, expected in (({}, 0.15), ({"threshold": 0.3}, 0.3)):
        with mlflow.start_run() as run:
            evaluate(str(path), **given)
        page = mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/dynamask/report.html")
        assert f'"threshold":{expected}' in page.replace(" ", "")


class TakesStatic(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(CHANNELS + 1, 2)

    def forward(self, x: torch.Tensor, static: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.head(torch.cat([x.mean(1), static], dim=1))
        return answer


def test_a_change_is_refused_of_models_of_several_inputs_and_of_models_that_only_predict(tmp_path: Path) -> None:
    data = {"x": X, "static": np.ones((3, 1), dtype=np.float32)}
    dynamask_mlflow.save_model(TakesStatic(), tmp_path / "m", task="classification", input_example=data)
    model = dynamask_mlflow.load_model(str(tmp_path / "m"), device="cpu")
    with pytest.raises(ModelError, match="but it also takes static"):
        model.explain_change(data, since=3, padding="carry")
    sequences = as_sequences(X, extras={"static": data["static"]})
    config = EvaluationConfig(change_since=3.0, change_padding="carry")
    with pytest.raises(ModelError, match="but it also takes static"):
        require_changes(TakesStatic(), sequences, task="classification", config=config)
    only = ForwardOnly(lambda x: x[:, 0, :2])
    with pytest.raises(ModelError, match="but it only predicts"):
        require_changes(only, as_sequences(X), task="classification", config=config)


def test_an_evaluation_logs_what_changed_and_the_answer_over_time(network: GRUClassifier) -> None:
    with mlflow.start_run() as run:
        result = evaluate(network, change_since=3, change_until=-1, change_padding="carry")
    change = result.artifacts["dynamask_change"].content
    record = result.artifacts["dynamask_change_record"].content
    table = result.artifacts["dynamask_changes"].content
    assert change.since.tolist() == [3] * 6
    assert change.until.tolist() == [STEPS - 1] * 6
    assert len(record["instances"]) == 6
    assert record["channel_names"] == list(NAMES)
    for row, instance in enumerate(record["instances"]):
        moved = np.sum(instance["moves"], axis=1) + instance["time_alone"]
        np.testing.assert_allclose(np.diff(instance["scores"]), moved[1:], atol=2e-3)
        at = {steps: place for place, steps in enumerate(record["steps"])}
        assert instance["scores"][at[3]] == pytest.approx(change.before[row], abs=1e-3)
        assert instance["scores"][at[STEPS - 1]] == pytest.approx(change.after[row], abs=1e-3)
        assert sum(cell[2] for cell in instance["cells"]) == pytest.approx(change.change[row], abs=0.05)
    assert "moved_by" in json.dumps(table) or "moved_by" in list(table)
    names = {file.path for file in mlflow.MlflowClient().list_artifacts(run.info.run_id, "dynamask")}
    assert {"dynamask/change.npz", "dynamask/change.json"} <= names


def test_a_change_that_cannot_be_asked_is_refused_before_anything_is_fitted(network: GRUClassifier) -> None:
    with mlflow.start_run(), pytest.raises(MlflowException, match="Pass padding"):
        evaluate(network, change_since=3)


def test_a_change_that_fails_after_the_fits_does_not_cost_the_masks(
    store: Path, network: GRUClassifier, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("bad measurement 7777.125")

    monkeypatch.setattr("dynamask_mlflow.tracking.evaluate_run.explain_changes", failing)
    result = evaluate(network, change_since=3, change_padding="carry")
    assert result.metrics["dynamask/instances"] == 6
    assert "dynamask_change" not in result.artifacts
    assert "what changed could not be explained, the rest is logged: RuntimeError in the model" in caplog.text
    assert "7777" not in caplog.text
