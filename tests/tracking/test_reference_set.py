from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_networks import GRUClassifier, Regressor, sequences

import dynamask_mlflow
from dynamask_mlflow import explain
from dynamask_mlflow.evaluation.model_settings import MOST_REFERENCES, REFERENCE_FILE, reference_set
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
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
