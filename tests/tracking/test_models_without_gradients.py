"""Models that only predict, through `mlflow.models.evaluate`, and MLflow's own evaluator beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import torch
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_evaluations import QUICK, X, Y, data, evaluate
from small_networks import CHANNELS, NAMES, STEPS, GRUClassifier, StepwiseClassifier, sequences

from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.tracking.forward_model import Predictor
from dynamask_mlflow.tracking.table_columns import column_places

TRAIN, LABELS = sequences(400, seed=3)
LAST = (slice(None), slice(-3, None), 1)
"""The cells that decide: channel 1 in the last three steps."""


def pipeline(rows: Any) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, LABELS)


def found(result: Any) -> float:
    """The share of all coefficients that lies on the cells that decide."""
    masks = result.artifacts["dynamask_masks"].content
    assert set(masks.algorithm) == {"forward passes"}
    return float(masks.masks[LAST].sum() / masks.masks.sum())


def test_a_sklearn_pipeline_on_flat_windows_is_explained_by_its_probabilities(
    store: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flat = TRAIN.reshape(len(TRAIN), -1)
    signature = ModelSignature(Schema([TensorSpec(np.dtype("float32"), (-1, STEPS * CHANNELS))]))
    mlflow.sklearn.save_model(pipeline(flat), tmp_path / "m", signature=signature, pip_requirements=["mlflow"])
    result = evaluate(str(tmp_path / "m"), forward_budget=120)
    assert found(result) > 0.7
    assert result.metrics["dynamask/ce"] > result.metrics["dynamask/ce/random"]
    assert "explained by 120 forward passes an instance" in caplog.text
    assert "forward passes" in set(result.tables["dynamask_instances"]["algorithm"])


def test_classes_have_the_names_that_the_model_itself_answers_with(store: Path, tmp_path: Path) -> None:
    names = np.array(["survives", "dies"])  # not in the order in which sklearn numbers them
    flat = TRAIN.reshape(len(TRAIN), -1)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(flat, names[LABELS])
    signature = ModelSignature(Schema([TensorSpec(np.dtype("float32"), (-1, STEPS * CHANNELS))]))
    mlflow.sklearn.save_model(model, tmp_path / "m", signature=signature, pip_requirements=["mlflow"])
    result = evaluate(str(tmp_path / "m"), data(targets=names[Y]), forward_budget=120)
    table = result.tables["dynamask_instances"]
    rows = table["id"].astype(int)
    assert table["prediction"].tolist() == model.predict(X[rows].reshape(len(rows), -1)).tolist()
    assert table["target"].tolist() == names[Y[rows]].tolist()


def test_columns_are_mapped_to_cells_by_their_names(store: Path, tmp_path: Path) -> None:
    names = [f"{name}_{step}" for name in NAMES for step in range(STEPS)]  # channel by channel
    table = pd.DataFrame(TRAIN.transpose(0, 2, 1).reshape(len(TRAIN), -1), columns=names)
    mlflow.sklearn.save_model(
        pipeline(table), tmp_path / "m", pip_requirements=["mlflow"], signature=mlflow.models.infer_signature(table)
    )
    assert found(evaluate(str(tmp_path / "m"), forward_budget=120)) > 0.7


def score(rows: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-4 * rows.reshape(-1, STEPS, CHANNELS)[LAST].mean(1)))


class Score(mlflow.pyfunc.PythonModel):
    """Anybody's model: a risk, from arrays alone, without a signature."""

    def predict(self, context: Any, model_input: Any, params: Any = None) -> np.ndarray:
        if not isinstance(model_input, np.ndarray) or model_input.ndim != 3:
            raise TypeError("arrays (N, T, d) only")
        return score(model_input)


@pytest.mark.parametrize("kind", ["pyfunc", "function", "function on flat windows"])
def test_any_pyfunc_and_any_function_is_explained(store: Path, tmp_path: Path, kind: str) -> None:
    options: dict[str, Any] = {"forward_budget": 120}
    if kind == "pyfunc":
        mlflow.pyfunc.save_model(tmp_path / "m", python_model=Score(), pip_requirements=["mlflow"])
        model: Any = str(tmp_path / "m")
    elif kind == "function":
        model = lambda x: score(np.asarray(x))  # noqa: E731
    else:

        def model(rows: np.ndarray) -> np.ndarray:
            assert rows.ndim == 2
            return score(rows)

        options["shape"] = [STEPS, CHANNELS]
    assert found(evaluate(model, **options)) > 0.7


def test_without_a_model_nothing_is_explained_and_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    from dynamask_mlflow.tracking.evaluator import DynamaskEvaluator

    dataset = data().to_evaluation_dataset()
    assert DynamaskEvaluator().evaluate(model_type="classifier", dataset=dataset, run_id="", model=None) is None
    assert "nothing was explained: no model was given" in caplog.text


def test_a_model_that_takes_no_form_of_the_data_is_refused_with_all_of_them() -> None:
    def never(rows: Any) -> Any:
        raise TypeError("nothing suits me")

    with pytest.raises(ModelError, match=r"as an array \(B, T, d\): nothing suits me; as an array \(B, T d\)"):
        Predictor(never, "classification")(X[:2])


def test_named_outputs_are_chosen_or_listed() -> None:
    both = Predictor(lambda x: {"label": np.zeros(len(x), int), "probabilities": np.ones((len(x), 2)) / 2}, "x")
    assert both(X[:3]).shape == (3, 2)
    told = Predictor(lambda x: {"a": np.zeros(len(x)), "b": np.ones(len(x))}, "x", output_key="b")
    assert told(X[:3]).tolist() == [1, 1, 1]
    with pytest.raises(ModelError, match="returns 'a', 'b': say which with output_key"):
        Predictor(lambda x: {"a": np.zeros(len(x)), "b": np.zeros(len(x))}, "x")(X[:3])


def test_names_that_do_not_say_a_cell_leave_the_order() -> None:
    assert column_places(["f0", "f1", "f2", "f3"], ["HR", "BP"], (2, 2)).tolist() == [0, 1, 2, 3]
    assert column_places(["t1_HR", "t1_BP", "t2_HR", "t2_BP"], ["HR", "BP"], (2, 2)).tolist() == [0, 1, 2, 3]


@pytest.fixture
def plain(network: GRUClassifier, tmp_path: Path) -> str:
    """A network as most teams log it: logits, no signature."""
    mlflow.pytorch.save_model(network, tmp_path / "plain", pip_requirements=["torch"], serialization_format="pickle")
    return str(tmp_path / "plain")


@pytest.mark.parametrize("evaluators", [["default", "dynamask"], None])
def test_mlflows_own_evaluator_gets_labels_of_a_plain_network(store: Path, plain: str, evaluators: Any) -> None:
    config = {"default": {}, "dynamask": QUICK} if evaluators else QUICK
    result = mlflow.models.evaluate(
        plain, data(), model_type="classifier", evaluators=evaluators, evaluator_config=config
    )
    with torch.no_grad():
        expected = mlflow.pytorch.load_model(plain)(torch.as_tensor(X)).argmax(-1).numpy()
    assert result.metrics["accuracy_score"] == pytest.approx(float((expected == Y).mean()))
    assert result.metrics["dynamask/instances"] == 6
    assert not [name for name in result.artifacts if "shap" in name]


def test_answers_at_every_step_leave_mlflows_evaluator_out_with_one_line(
    store: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mlflow.pytorch.save_model(
        StepwiseClassifier().eval(), tmp_path / "m", pip_requirements=["torch"], serialization_format="pickle"
    )
    result = mlflow.models.evaluate(
        str(tmp_path / "m"),
        data(),
        model_type="classifier",
        evaluators=["default", "dynamask"],
        evaluator_config={"dynamask": {**QUICK, "target": "step:9"}},
    )
    assert "dynamask/instances" in result.metrics
    assert caplog.text.count("MLflow's default evaluator is left out") == 1


@pytest.mark.parametrize("nested", [False, True])
def test_flat_and_nested_settings_are_taken(store: Path, plain: str, nested: bool) -> None:
    config = {**QUICK, "instances": 4}
    result = mlflow.models.evaluate(
        plain,
        data(),
        model_type="classifier",
        evaluators="dynamask",
        evaluator_config={"dynamask": config} if nested else config,
    )
    assert result.metrics["dynamask/instances"] == 4
