"""What changed since, asked of a logged model; and parameters that nobody knows."""

import json
from pathlib import Path

import mlflow
import numpy as np
import pytest
from mlflow.exceptions import MlflowException
from small_evaluations import evaluate
from small_networks import CHANNELS, NAMES, STEPS, GRUClassifier, sequences

import dynamask_mlflow

X, _ = sequences(3)
HOURS = [float(6 * step) for step in range(STEPS)]
FILLED = {"fill": ["forward"] * CHANNELS}


@pytest.fixture(scope="module")
def saved(network: GRUClassifier, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "gru"
    dynamask_mlflow.save_model(
        network,
        path,
        task="classification",
        input_example=X[:2],
        channel_names=NAMES,
        times=HOURS,
        preprocessing=FILLED,
    )
    return str(path)


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
