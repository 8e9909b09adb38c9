"""Models of other libraries, and one behind an address."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.experiments.zoo import networks, planted
from dynamask_mlflow.experiments.zoo.entry import Entry
from dynamask_mlflow.experiments.zoo.planted import CHANNELS, STEPS, Planted
from dynamask_mlflow.experiments.zoo.training import train_network

_OTHER_METHODS = ("fo", "random")


def _uri(info: Any) -> str:
    return f"models:/{info.name}/{info.registered_model_version}"


def _signature(*shape: int) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    return ModelSignature(Schema([TensorSpec(np.dtype("float32"), (-1, *shape))]))


def lightgbm(data: Planted, name: str) -> str:
    """Boosted trees on a table with a column for each channel and step, channel by channel."""
    import mlflow.lightgbm
    import pandas as pd
    from lightgbm import LGBMClassifier

    columns = [f"channel_{channel}_{step}" for channel in range(CHANNELS) for step in range(STEPS)]
    table = pd.DataFrame(data.x.transpose(0, 2, 1).reshape(len(data), -1), columns=columns)
    model = LGBMClassifier(n_estimators=200, learning_rate=0.2, n_jobs=1, verbose=-1).fit(table, data.y)
    signature = mlflow.models.infer_signature(table)
    return _uri(
        mlflow.lightgbm.log_model(
            model, name=name, signature=signature, registered_model_name=name, pip_requirements=["lightgbm"]
        )
    )


def minirocket(data: Planted, name: str) -> str:
    """aeon's MiniRocket on (N, d, T); it answers with labels, its pipeline with margins."""
    import mlflow.sklearn
    from aeon.classification.convolution_based import MiniRocketClassifier

    x: NDArray[Any] = np.ascontiguousarray(data.x.transpose(0, 2, 1))
    model = MiniRocketClassifier(n_kernels=1000, random_state=0).fit(x, data.y)
    return _uri(
        mlflow.sklearn.log_model(
            model,
            name=name,
            signature=_signature(CHANNELS, STEPS),
            registered_model_name=name,
            pip_requirements=["aeon"],
            serialization_format="cloudpickle",
        )
    )


def keras(data: Planted, name: str) -> str:
    """A convolutional network of Keras on torch, which is a module of torch with gradients."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras as library
    import mlflow.keras

    layers = library.layers
    library.utils.set_random_seed(0)
    model = library.Sequential(
        [
            layers.Input((STEPS, CHANNELS)),
            layers.Conv1D(24, 5, padding="same", activation="relu"),
            layers.Conv1D(24, 5, padding="same", activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(data.x, data.y, epochs=20, verbose=0)
    return _uri(
        mlflow.keras.log_model(
            model,
            name=name,
            signature=_signature(STEPS, CHANNELS),
            registered_model_name=name,
            pip_requirements=["keras"],
        )
    )


def _pypots_grud() -> nn.Module:
    from pypots.classification.grud.core import _GRUD
    from pypots.nn.modules.loss import CrossEntropy

    network: nn.Module = _GRUD(STEPS, CHANNELS, 24, 2, CrossEntropy(), CrossEntropy())
    return network


_PYPOTS = {"X": "x", "missing_mask": "observed", "deltas": "gaps", "empirical_mean": "means", "X_filledLOCF": "x"}


def pypots(data: Planted, name: str) -> str:
    """The network of PyPOTS' GRU-D as it is: it takes one dictionary, the values in it twice."""
    import torch

    from dynamask_mlflow.masks.side_inputs import gaps_between
    from dynamask_mlflow.tracking.flavor import log_model

    mask = np.asarray(data.observed, dtype=np.float32)
    given = {"X": data.x, "missing_mask": mask, "deltas": gaps_between(torch.as_tensor(mask)).numpy()}
    given |= {"empirical_mean": data.extras["means"], "X_filledLOCF": data.x}

    def answer(network: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        out: Tensor = network(dict(batch))["logits"]
        return out

    network = train_network(_pypots_grud, given, data.y, answer=answer, rate=1e-2, epochs=25)
    example = {"x": data.x[:2], "observed": data.observed[:2], "means": data.extras["means"][:2]}  # type: ignore[index]
    info = log_model(
        network,
        name,
        task="classification",
        input_example=example,
        inputs=_PYPOTS,
        serialization_format="pickle",
        registered_model_name=name,
        pip_requirements=["pypots"],
    )
    return _uri(info)


def with_means(n: int, seed: int) -> Planted:
    """One event, partly measured, with the mean of each channel as PyPOTS' GRU-D takes it."""
    data = planted.partly_measured(n, seed)
    event = planted.one_event(n, seed)
    means = np.zeros((n, CHANNELS), dtype=np.float32)
    assert data.observed is not None
    return replace(data, y=event.y, truth=event.truth & data.observed, extras={"means": means})


def endpoint(data: Planted, name: str) -> AbstractContextManager[Any]:
    """A GRU that packs its sequences, behind `mlflow models serve`: two inputs over REST, no gradients."""
    from dynamask_mlflow.tracking.flavor import log_model

    assert data.lengths is not None
    given: dict[str, NDArray[Any]] = {"x": data.x, "lengths": data.lengths}
    network = train_network(partial(networks.Packed, CHANNELS), given, data.y)
    info = log_model(
        network,
        name,
        task="classification",
        input_example={key: values[:2] for key, values in given.items()},
        serialization_format="pickle",
        registered_model_name=name,
        pip_requirements=["torch"],
    )
    return _served(_uri(info))


@contextmanager
def _served(uri: str) -> Iterator[Any]:
    import tempfile
    from pathlib import Path

    from dynamask_mlflow.experiments.zoo.servers import scoring_server
    from dynamask_mlflow.tracking.endpoint import Endpoint

    with tempfile.TemporaryDirectory() as folder, scoring_server(uri, Path(folder)) as url:
        yield Endpoint(url, params={"output": "probability"}, arguments=("x", "lengths"))


ENTRIES = (
    Entry(
        "lightgbm",
        "boosted trees on a table of T d named columns, `mlflow.lightgbm`",
        lightgbm,
        other_methods=_OTHER_METHODS,
        needs=("lightgbm",),
    ),
    Entry(
        "minirocket",
        "aeon's MiniRocket on (N, d, T), by its margins",
        minirocket,
        other_methods=_OTHER_METHODS,
        needs=("aeon",),
    ),
    Entry(
        "minirocket-reference",
        'the same against other sequences, `reference_from="dataset"`',
        minirocket,
        options={"reference_from": "dataset"},
        other_methods=_OTHER_METHODS,
        needs=("aeon",),
    ),
    Entry("keras", "a network of Keras on torch, `mlflow.keras`", keras, needs=("keras",)),
    Entry(
        "pypots-gru-d",
        "GRU-D of PyPOTS, a dictionary of five; `inputs=`",
        pypots,
        with_means,
        needs=("pypots",),
    ),
    Entry(
        "endpoint",
        "`mlflow models serve`, x and lengths over REST",
        endpoint,
        planted.unequal_lengths,
        other_methods=_OTHER_METHODS,
    ),
)
