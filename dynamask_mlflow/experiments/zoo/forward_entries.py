"""Models that only predict: trees, scikit-learn, ONNX, any pyfunc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.experiments.zoo.entry import Entry
from dynamask_mlflow.experiments.zoo.networks import Gru, Tcn
from dynamask_mlflow.experiments.zoo.planted import CHANNELS, STEPS, Planted
from dynamask_mlflow.experiments.zoo.training import train_network

_OTHER_METHODS = ("fo", "random")


def _rows(x: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(x.reshape(len(x), -1), dtype=np.float32)


def _uri(info: Any) -> str:
    return f"models:/{info.name}/{info.registered_model_version}"


def _tensor_signature(*shape: int) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    return ModelSignature(Schema([TensorSpec(np.dtype("float32"), (-1, *shape))]))


def xgboost(planted: Planted, name: str) -> str:
    """Boosted trees on windows in one row, by `mlflow.xgboost`."""
    import mlflow.xgboost
    from xgboost import XGBClassifier

    model = XGBClassifier(n_estimators=200, max_depth=4, learning_rate=0.2, n_jobs=1).fit(_rows(planted.x), planted.y)
    signature = _tensor_signature(STEPS * CHANNELS)
    return _uri(
        mlflow.xgboost.log_model(
            model, name=name, signature=signature, registered_model_name=name, pip_requirements=["xgboost"]
        )
    )


def _sklearn(build: Callable[[], Any], *shape: int) -> Callable[[Planted, str], str]:
    def register(planted: Planted, name: str) -> str:
        import mlflow.sklearn

        given = _rows(planted.x) if len(shape) == 1 else planted.x
        model = build().fit(given, planted.y)
        return _uri(
            mlflow.sklearn.log_model(
                model,
                name=name,
                signature=_tensor_signature(*shape),
                registered_model_name=name,
                pip_requirements=["scikit-learn"],
                serialization_format="cloudpickle",
            )
        )

    return register


def _pipeline() -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=60, random_state=0))


def kernels(x: NDArray[Any]) -> NDArray[np.float32]:
    """(N, 2 K): random convolutions, their largest values and the share of positive ones, as ROCKET has it."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(120):
        length, dilation = 7, int(rng.choice([1, 2]))
        weights = rng.normal(size=(length, x.shape[2]))
        weights -= weights.mean()
        bias, span = rng.uniform(-1, 1), (length - 1) * dilation
        padded = np.pad(x, ((0, 0), (span // 2, span // 2), (0, 0)))
        windows = np.stack([padded[:, k * dilation : k * dilation + x.shape[1]] for k in range(length)], 2)
        value = np.einsum("ntkd,kd->nt", windows, weights) + bias
        found += [value.max(1), (value > 0).mean(1)]
    return np.stack(found, 1).astype(np.float32)


def _rocket() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    return make_pipeline(FunctionTransformer(kernels), StandardScaler(), LogisticRegression(C=0.1, max_iter=300))


def onnx(planted: Planted, name: str) -> str:
    """A TCN exported to ONNX, by `mlflow.onnx`."""
    import tempfile
    from pathlib import Path

    import mlflow.onnx
    import torch
    from onnx import load_model

    network = train_network(lambda: Tcn(CHANNELS), {"x": planted.x}, planted.y)
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch, "model.onnx"))
        torch.onnx.export(
            network,
            (torch.from_numpy(planted.x[:2]),),
            path,
            input_names=["x"],
            output_names=["logits"],
            dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}},
            dynamo=False,
        )
        exported = load_model(path)
    return _uri(
        mlflow.onnx.log_model(
            exported,
            name=name,
            signature=_tensor_signature(STEPS, CHANNELS),
            registered_model_name=name,
            pip_requirements=["onnx", "onnxruntime"],
        )
    )


def pyfunc(planted: Planted, name: str) -> str:
    """A model of one's own that gives risks from arrays, without a signature."""
    import mlflow.pyfunc
    import torch
    from mlflow.pyfunc.model import PythonModel

    network = train_network(lambda: Gru(CHANNELS), {"x": planted.x}, planted.y)

    class Risk(PythonModel):
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            with torch.no_grad():
                x = torch.as_tensor(np.asarray(model_input, dtype=np.float32))
                return network(x).softmax(-1)[:, 1].numpy()

    return _uri(
        mlflow.pyfunc.log_model(name=name, python_model=Risk(), registered_model_name=name, pip_requirements=["torch"])
    )


ENTRIES = (
    Entry(
        "xgboost",
        "boosted trees on flat windows, `mlflow.xgboost`",
        xgboost,
        other_methods=_OTHER_METHODS,
        needs=("xgboost",),
    ),
    Entry(
        "sklearn",
        "scaler and perceptron on flat windows",
        _sklearn(_pipeline, STEPS * CHANNELS),
        other_methods=_OTHER_METHODS,
        needs=("sklearn",),
    ),
    Entry(
        "rocket",
        "random convolutions as in ROCKET, `mlflow.sklearn` on (N, T, d)",
        _sklearn(_rocket, STEPS, CHANNELS),
        other_methods=_OTHER_METHODS,
        needs=("sklearn",),
    ),
    Entry(
        "rocket-reference",
        'the same against other sequences, `reference_from="dataset"`',
        _sklearn(_rocket, STEPS, CHANNELS),
        options={"reference_from": "dataset"},
        other_methods=_OTHER_METHODS,
        needs=("sklearn",),
    ),
    Entry("onnx", "a TCN, `mlflow.onnx`", onnx, other_methods=_OTHER_METHODS, needs=("onnx", "onnxruntime")),
    Entry("pyfunc", "a GRU in a pyfunc of one's own, risks, no signature", pyfunc, other_methods=_OTHER_METHODS),
)
