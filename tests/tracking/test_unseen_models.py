"""Models as other teams log them: tables with further columns, several named tensors, labels, margins, other axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from mlflow.models import ModelSignature, infer_signature
from mlflow.types import Schema, TensorSpec
from sklearn.linear_model import LogisticRegression
from small_evaluations import QUICK
from torch import Tensor, nn

from dynamask_mlflow import explain
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import evaluate_masks
from dynamask_mlflow.evaluation.sequences import Sequences, as_sequences
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.masks.result import Masks
from dynamask_mlflow.tracking.forward_answers import as_array
from dynamask_mlflow.tracking.forward_model import Predictor
from dynamask_mlflow.tracking.open_network import open_network

N, STEPS, CHANNELS = 24, 8, 3
_RNG = np.random.default_rng(1)
X = _RNG.normal(size=(N, STEPS, CHANNELS)).astype(np.float32)
LENGTHS = np.where(np.arange(N) % 2, STEPS, 5)
AGE = _RNG.normal(size=(N, 1)).astype(np.float32)
NAMES = ("HR", "BP", "Temp")
CONFIG = ExplainConfig(forward_budget=150, progress=False)


def asked(model: Any, sequences: Sequences, task: str, **options: Any) -> Masks:
    """Masks by the way that evaluator, command and audit take."""
    network, config = open_network(model, sequences, task, CONFIG.with_options(**options))
    return explain(
        network,
        sequences.x,
        task=task,
        lengths=sequences.lengths,
        observed=sequences.observed,
        extras=sequences.extras,
        config=config,
    )


def logged(folder: Path, predict: Any, signature: Any = None) -> Any:
    class Model(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            return predict(model_input)

    mlflow.pyfunc.save_model(folder / "m", python_model=Model(), signature=signature, pip_requirements=["mlflow"])
    return mlflow.pyfunc.load_model(str(folder / "m"))


def test_columns_beside_the_cells_are_further_inputs(tmp_path: Path) -> None:
    columns = ["age", *(f"{name}_{step}" for name in NAMES for step in range(STEPS))]
    example = pd.DataFrame(np.zeros((2, len(columns)), dtype=np.float32), columns=columns)
    model = logged(tmp_path, lambda table: table["age"] + 3 * table["BP_6"], infer_signature(example))
    data = as_sequences(X, channel_names=NAMES, extras={"age": AGE})
    masks = asked(model, data, "regression")
    assert (masks.scores.reshape(N, -1).argmax(1) == 6 * CHANNELS + 1).mean() > 0.9
    assert masks.static_attributions is not None
    np.testing.assert_allclose(np.abs(masks.static_attributions[:, 0]) > 0, True)
    with pytest.raises(ModelError, match="what the model's argument 'age' takes"):
        asked(model, as_sequences(X, channel_names=NAMES), "regression")


def test_tensors_of_a_signature_are_given_by_their_names(tmp_path: Path) -> None:
    def predict(inputs: dict[str, Any]) -> Any:
        assert inputs["values"].shape[1:] == (CHANNELS, STEPS)
        exists = np.arange(STEPS) < inputs["seq_len"]
        return {"score": (inputs["values"][:, 0] * exists).sum(1), "label": np.zeros(len(exists), dtype=int)}

    specs = [
        TensorSpec(np.dtype("float32"), (-1, CHANNELS, STEPS), "values"),
        TensorSpec(np.dtype("int64"), (-1, 1), "seq_len"),
    ]
    model = logged(tmp_path, predict, ModelSignature(Schema(specs)))
    masks = asked(model, as_sequences(X, lengths=LENGTHS), "regression")
    assert set(masks.algorithm) == {"forward passes"}
    assert masks.scores[:, :, 0].sum() > 0.9 * masks.scores.sum()
    expected = (X[:, :, 0] * (np.arange(STEPS) < LENGTHS[:, None])).sum(1)
    np.testing.assert_allclose(masks.diagnostics["answer"], expected, atol=1e-4)


def test_a_function_of_several_arrays_is_explained() -> None:
    def predict(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return np.asarray([float(np.sort(row[:end, 1])[-1]) for row, end in zip(x, lengths, strict=True)])

    masks = explain(predict, X, task="regression", lengths=LENGTHS, config=CONFIG)
    assert masks.scores[:, :, 1].sum() > 0.9 * masks.scores.sum()


class Labels(nn.Module):
    """The label alone, beside something else, by steps that exist."""

    def forward(self, x: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        exists = torch.arange(STEPS)[None] < lengths[:, None]
        return {"hidden": x, "label": ((x[:, :, 2] * exists).sum(1) > 0).long()}


def test_labels_of_a_network_with_several_inputs_are_explained(caplog: pytest.LogCaptureFixture) -> None:
    data = as_sequences(X, lengths=LENGTHS)
    masks = asked(Labels(), data, "classification", output_key="label")
    assert "answers with labels alone" in caplog.text
    assert masks.scores[:, :, 2].sum() > 0.9 * masks.scores.sum()
    answers = (X[:, :, 2] * (np.arange(STEPS) < LENGTHS[:, None])).sum(1) > 0
    np.testing.assert_array_equal(masks.diagnostics["target_class"][masks.direction > 0], answers[masks.direction > 0])


def test_margins_stand_for_probabilities_where_there_are_none(tmp_path: Path) -> None:
    from sklearn.svm import LinearSVC

    rows = X.reshape(N, -1)
    mlflow.sklearn.save_model(LinearSVC().fit(rows, rows[:, 4] > 0), tmp_path / "m", pip_requirements=["mlflow"])
    network, _ = open_network(mlflow.pyfunc.load_model(str(tmp_path / "m")), as_sequences(X), "classification", CONFIG)
    assert len(torch.unique(network(torch.as_tensor(X)))) > 2


def test_words_as_labels_reach_mlflows_own_evaluator(store: Path, tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    words = np.where(X[:, 3, 1] > 0, "sick", "well")
    model = LogisticRegression(C=100.0).fit(X.reshape(N, -1), words)
    mlflow.sklearn.save_model(model, tmp_path / "m", pip_requirements=["mlflow"])
    result = mlflow.models.evaluate(
        str(tmp_path / "m"),
        mlflow.data.from_sequences(X, targets=words),
        model_type="classifier",
        evaluators=["default", "dynamask"],
        evaluator_config={"default": {}, "dynamask": {**QUICK, "forward_budget": 60, "images": 0}},
    )
    assert result.metrics["accuracy_score"] == 1.0
    assert result.metrics["dynamask/instances"] == 6


class TimeFirst(nn.Module):
    """Recurrent as torch has it by default, (T, B, d)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.recurrent, self.head = nn.GRU(CHANNELS, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.recurrent(x)[1][-1])
        return out


def test_networks_that_take_time_first_are_told_from_others() -> None:
    network = TimeFirst()
    with pytest.raises(ModelError, match="say layout='time_first'"):
        explain(network, X, progress=False)
    masks = explain(network, X, layout="time_first", progress=False)
    turned = explain(lambda x: network(x.transpose(0, 1)), X, progress=False)
    np.testing.assert_allclose(masks.scores, turned.scores, atol=1e-5)


def test_probabilities_of_several_labels_are_told(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    monkeypatch.setattr("dynamask_mlflow.masks.black_box._said", set())
    explain(lambda x: torch.sigmoid(x[:, 0]), X[:4], progress=False)
    assert "do not sum to 1, as those of several labels do" in caplog.text


def test_what_looks_like_a_finding_and_is_none_is_told(caplog: pytest.LogCaptureFixture) -> None:
    labels = np.tile([[1, 1], [0, 1]], (len(X) // 2, 1))
    data = as_sequences(X[: len(labels)], targets=labels)
    config = EvaluationConfig.from_mapping(QUICK)
    evaluate_masks(nn.Sequential(nn.Flatten(), nn.Linear(X[0].size, 2)), data, task="classification", config=config)
    assert "name several of the 2 outputs at once, or none" in caplog.text
    assert "no cell is salient" not in caplog.text
    flat = nn.Sequential(nn.Flatten(), nn.Linear(X[0].size, 1))
    nn.init.zeros_(flat[1].weight)
    evaluate_masks(flat, as_sequences(X), task="regression", config=config)
    assert "no cell is salient" in caplog.text


def test_codes_of_an_embedding_are_refused_with_the_way_out() -> None:
    class Codes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 1)

        def forward(self, codes: Tensor) -> Tensor:
            return self.rest(self.embedding(codes))

        def rest(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(x).amax(1)
            return out

    network, codes = Codes(), torch.randint(9, (4, 6))
    with pytest.raises(ModelError, match=r"explain\(rest, embedding\(codes\)\)"):
        explain(network, codes[:, :, None], progress=False)
    assert explain(network.rest, network.embedding(codes), progress=False).masks.shape == (4, 6, 4)


def test_a_table_that_cannot_be_windows_is_refused_with_its_columns(tmp_path: Path) -> None:
    example = pd.DataFrame({"id": [0, 0], "time": [0, 1], "HR": [0.1, 0.2]})
    model = logged(tmp_path, lambda table: table["HR"], infer_signature(example))
    with pytest.raises(ModelError, match="its signature takes 3 columns: id, time, HR"):
        asked(model, as_sequences(X), "regression")


def test_tables_of_answers_are_read_by_their_columns() -> None:
    chances = np.array([0.2, 0.7])
    label_and_score = pd.DataFrame({"label": [0, 1], "score": chances})
    assert as_array(label_and_score, 2).tolist() == chances.tolist()
    classes = pd.DataFrame({"survives": 1 - chances, "dies": chances})
    assert as_array(classes, 2).shape == (2, 2)
    assert as_array(pd.DataFrame({"prediction": chances}), 2).tolist() == chances.tolist()
    with pytest.raises(ValueError, match="but the model returns 'a', 'b'"):
        as_array(pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), 2)


def test_records_of_answers_are_read_as_a_table_is() -> None:
    """Classifiers converted to ONNX answer with a dictionary for each sequence beside the label."""
    chances = [{0: 0.8, 1: 0.2}, {0: 0.3, 1: 0.7}]
    converted = {"output_label": np.array([0, 1]), "output_probability": chances}
    assert as_array(converted, 2).tolist() == [[0.8, 0.2], [0.3, 0.7]]
    assert as_array(chances, 2).tolist() == [[0.8, 0.2], [0.3, 0.7]]
    assert as_array([{"label": "a", "score": 0.2}, {"label": "b", "score": 0.7}], 2).tolist() == [0.2, 0.7]


def test_explain_takes_what_mlflow_loads_and_estimators(tmp_path: Path) -> None:
    """The module inside is asked for gradients, an estimator for its probabilities."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(STEPS * CHANNELS, 2))
    mlflow.pytorch.save_model(network, tmp_path / "torch", pip_requirements=["torch"], serialization_format="pickle")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "torch"))
    assert set(explain(loaded, X, progress=False).algorithm) == {"gradients"}
    labels = (X[:, :, 0].sum(1) > 0).astype(int)
    estimator = LogisticRegression().fit(X.reshape(N, -1), labels)
    mlflow.sklearn.save_model(estimator, tmp_path / "sklearn", serialization_format="cloudpickle")
    pyfunc = mlflow.pyfunc.load_model(str(tmp_path / "sklearn"))
    directions = np.sign(estimator.decision_function(X.reshape(N, -1)) - estimator.intercept_)
    for model in (estimator, pyfunc):
        masks = explain(model, X, shape=(STEPS, CHANNELS), operators="zero", progress=False)
        assert set(masks.algorithm) == {"forward passes"}
        assert masks.direction.tolist() == directions.tolist()


def test_an_estimator_on_rows_is_given_rows_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    estimator = LogisticRegression().fit(X.reshape(N, -1), np.arange(N) % 2)
    with caplog.at_level("WARNING"):
        tried = explain(estimator, X, progress=False)
    assert "rows of 24 numbers" in caplog.text
    said = explain(estimator, X, shape=(STEPS, CHANNELS), progress=False)
    assert np.array_equal(tried.masks, said.masks)


def test_several_outputs_are_the_whole_complaint() -> None:
    """The model took the sequences: nothing is said about how it might take them."""

    def table(x: Any) -> pd.DataFrame:
        risk = np.asarray(x).reshape(len(x), -1).mean(1)
        return pd.DataFrame({"p_lives": 1 - risk, "p_dies": risk, "label": (risk > 0).astype(int)})

    with pytest.raises(
        ModelError, match=r"returns 'label', 'p_dies', 'p_lives': say which with output_key\.$"
    ) as raised:
        Predictor(table, "classification")(X)
    assert "signature" not in str(raised.value)
    assert Predictor(table, "classification", output_key="p_dies")(X).shape == (N,)
