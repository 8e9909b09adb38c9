from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_networks import GRUClassifier, Regressor, sequences

import dynamask_mlflow
from dynamask_mlflow import explain
from dynamask_mlflow._settings import ConfigError
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import evaluate_masks
from dynamask_mlflow.evaluation.model_settings import MOST_REFERENCES, REFERENCE_FILE, reference_set
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.masks.forward_only import ForwardOnly
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.tracking.untrusted import load_folder

X, _ = sequences(8)
OTHERS, _ = sequences(400, seed=5)


@pytest.fixture(scope="module")
def saved(network: GRUClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "with-reference"
    dynamask_mlflow.save_model(network, path, task="classification", input_example=X[:1], reference=OTHERS)
    return path


def test_a_model_keeps_a_few_hundred_reference_sequences_and_explains_against_them(
    saved: Path, network: GRUClassifier
) -> None:
    model = dynamask_mlflow.load_model(str(saved))
    assert model.reference is not None
    assert model.reference.shape == (MOST_REFERENCES, *X.shape[1:])
    ours = model.explain(X, progress=False)
    plain = explain(network, X, reference=model.reference, progress=False)
    np.testing.assert_allclose(ours.attributions, plain.attributions, atol=1e-4)
    alone = explain(network, X, progress=False)
    assert not np.allclose(ours.diagnostics["reference_answer"], alone.diagnostics["reference_answer"], atol=1e-3)


def test_a_model_that_nobody_trusts_may_bring_reference_sequences(saved: Path) -> None:
    model = load_folder(saved)
    assert isinstance(model, SequenceModel)
    np.testing.assert_array_equal(model.reference, dynamask_mlflow.load_model(str(saved)).reference)


def test_the_mean_keeps_no_single_sequence(tmp_path: Path) -> None:
    dynamask_mlflow.save_model(
        Regressor(), tmp_path / "m", task="regression", input_example=X, reference=OTHERS, reference_kind="mean"
    )
    model = dynamask_mlflow.load_model(str(tmp_path / "m"))
    np.testing.assert_allclose(model.reference, OTHERS.mean(axis=0, keepdims=True), atol=1e-6)


def test_a_model_without_reference_stores_none(tmp_path: Path) -> None:
    dynamask_mlflow.save_model(Regressor(), tmp_path / "m", task="regression", input_example=X)
    assert not (tmp_path / "m" / REFERENCE_FILE).exists()
    assert dynamask_mlflow.load_model(str(tmp_path / "m")).reference is None


@pytest.mark.parametrize(
    ("reference", "kind", "message"),
    [
        (OTHERS[:, :3], "sequences", "Expected reference of shape"),
        (OTHERS[:0], "sequences", "Expected reference of shape"),
        (np.full_like(OTHERS, np.nan), "sequences", "Expected finite reference"),
        (OTHERS, "median", "Expected reference_kind to be one of"),
    ],
)
def test_a_wrong_reference_is_refused(reference: np.ndarray, kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reference_set(reference, kind, X.shape[1:])


def flat_is_extreme(x: np.ndarray) -> np.ndarray:
    """A margin (B,): .5, the sum of large values, and 5 more for a series without noise, unlike what it was fitted to.

    Noise leaves its class as it is, so that noise does not take the place of the flat baselines.
    """
    flat = np.abs(np.diff(x, axis=1)).max((1, 2)) < 1e-6
    return np.where(np.abs(x) > 2, x, 0).sum((1, 2)) / 4 + 5.0 * flat + 0.5


def events(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, and at one step a value of 4 or of -4; and the event's sign."""
    rng = np.random.default_rng(0)
    x, sign = 0.3 * rng.normal(size=(number, 16, 2)), np.where(np.arange(number) % 2, 1, -1)
    x[np.arange(number), rng.integers(0, 16, number), 0] = 4 * sign
    return x.astype(np.float32), sign


def test_a_model_to_which_flat_lines_are_extreme_is_explained_against_its_dataset(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Against the baselines all answers are lowered, and an event that raises them ranks last; a warning says so."""
    x, sign = events(24)
    network, sequences_ = ForwardOnly(flat_is_extreme), as_sequences(x)
    config = EvaluationConfig(progress=False, images=0)
    with caplog.at_level("WARNING"):
        alone = evaluate_masks(network, sequences_, task="classification", config=config)
    assert "reference_from='dataset'" in caplog.text
    assert set(alone.main.masks.direction) == {-1}
    caplog.clear()
    others = config.with_options(reference_from="dataset")
    with caplog.at_level("WARNING"):
        among = evaluate_masks(network, sequences_, task="classification", config=others)
    assert "reference_from" not in caplog.text
    order = [alone.sample.ids.index(each) for each in among.sample.ids]
    raised = sign[[int(each) for each in among.sample.ids]] > 0
    assert (among.main.masks.direction[raised] == 1).all()

    def found(masks: Masks) -> np.ndarray:
        event = np.abs(among.sample.x).reshape(len(masks), -1).argmax(1)
        return np.asarray(event == masks.scores.reshape(len(masks), -1).argmax(1))

    assert found(among.main.masks)[raised].mean() > 0.9
    assert found(alone.main.masks[order])[raised].mean() < 0.1


def test_padding_is_no_reference() -> None:
    x, _ = events(8)
    with pytest.raises(ConfigError, match="sequences of one length"):
        evaluate_masks(
            ForwardOnly(flat_is_extreme),
            as_sequences(x, lengths=[12] * 8),
            task="classification",
            config=EvaluationConfig(reference_from="dataset", progress=False),
        )
