"""The MLflow flavor: one model folder that is a pytorch, a python_function and a dynamask model at once."""

from __future__ import annotations

import difflib
import inspect
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._version import __version__
from dynamask_mlflow.evaluation.model_settings import (
    SETTINGS_FILE,
    ModelSettings,
    reference_set,
    save_reference,
)
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.tracking.example import Example
from dynamask_mlflow.tracking.loading import FLAVOR_NAME, inference_params

if TYPE_CHECKING:
    import os

    import torch
    from mlflow.models import Model, ModelSignature
    from mlflow.models.model import ModelInfo
    from numpy.typing import ArrayLike

    from dynamask_mlflow.masks.config import Task

_LOADER = "dynamask_mlflow"
_LABELS = ("class_names", "time_unit", "channel_labels", "units")


def get_default_pip_requirements() -> list[str]:
    """What an environment needs to load and explain a model of this flavor.

    Example:
        >>> [line.partition("==")[0] for line in get_default_pip_requirements()]
        ['dynamask_mlflow', 'torch', 'numpy']
    """
    from importlib.metadata import version

    # Local builds ("2.13.0+cpu") cannot be installed by their full name.
    pins = [f"{name}=={version(name).split('+')[0]}" for name in ("torch", "numpy")]
    return [f"dynamask_mlflow=={__version__}", *pins]


def save_model(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    task: str,
    input_example: ArrayLike | Mapping[str, ArrayLike],
    output: str | None = None,
    channel_names: Sequence[str] | None = None,
    times: Sequence[Any] | None = None,
    labels: Mapping[str, Any] | None = None,
    preprocessing: Mapping[str, Any] | None = None,
    explain: Mapping[str, Any] | None = None,
    padding: str | float | Sequence[float] | None = None,
    threshold: float | None = None,
    inputs: Mapping[str, str] | None = None,
    layout: str | None = None,
    output_key: str | int | None = None,
    reference: ArrayLike | None = None,
    reference_kind: str = "sequences",
    keep_example: bool = False,
    serialization_format: str = "pt2",
    mlflow_model: Model | None = None,
    pip_requirements: Sequence[str] | None = None,
    extra_pip_requirements: Sequence[str] | None = None,
    **options: Any,
) -> None:
    """Save a network that takes (B, T, d) to a folder.

    Args:
        model: a torch module that takes (B, T, d), and perhaps more.
        path: a folder that does not exist yet.
        task: "classification" (outputs are logits or probabilities) or "regression".
        input_example: (B, T, d), or a mapping of all inputs by name, such as {"x": ..., "lengths": ..., "static": ...};
            fixes T and d. Its values are not stored unless `keep_example` is set.
        output: what `predict` gives: "label" (default) or "probability"; "value" for regression.
        channel_names, times: names of the d channels and labels of the T steps.
        labels: what the report calls things: `class_names`, `time_unit`, `channel_labels`, `units`.
        preprocessing: statistics to carry along, JSON-able. They are not applied by `predict`.
        explain: default explanation settings, keys of `ExplainConfig`.
        padding: how a shorter sequence was filled up in training, for `explain_change`: "carry", "shorter", a number or
            d numbers. Not needed where the network answers at each step or takes lengths, or `preprocessing` says that
            all channels are filled forward.
        threshold: the risk from which users are alarmed; the report draws it.
        inputs, layout, output_key: how the network is called and read, see `ModelCall`; by default found out.
        reference: (M, T, d) sequences such as the model was trained on; at most 300 are kept with the model, and
            answers are explained against theirs. They are raw values: whoever reads the model can read them.
        reference_kind: "sequences", or "mean" to keep only their mean.
        serialization_format: "pt2" (a traced graph, no pickle) or "pickle".
        mlflow_model, pip_requirements, extra_pip_requirements, options: as in `mlflow.pytorch.save_model`.

    Example:
        >>> import torch
        >>> from dynamask_mlflow import load_model
        >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(10, 2))
        >>> save_model(network, "model", task="classification", input_example=np.zeros((2, 5, 2)))
        >>> load_model("model").predict(np.zeros((3, 5, 2))).shape
        (3,)
    """
    import mlflow.pytorch
    from mlflow.models import Model

    _refuse_unknown(options)
    example = Example.of(input_example)
    call = {"inputs": None if inputs is None else dict(inputs), "layout": layout, "output_key": output_key}
    settings = ModelSettings(
        task=cast("Task", task),
        output=output or "",
        steps=example.shape[0],
        channels=example.shape[1],
        channel_names=None if channel_names is None else tuple(channel_names),
        times=None if times is None else tuple(times),
        preprocessing=preprocessing,
        **_labels(labels),
        explain={**(explain or {}), **{name: value for name, value in call.items() if value is not None}},
        padding=padding if padding is None or isinstance(padding, str | float | int) else tuple(padding),
        threshold=threshold,
    )
    others = None if reference is None else reference_set(reference, reference_kind, example.shape)
    if not keep_example:
        example = example.blank()
    mlflow_model = Model() if mlflow_model is None else mlflow_model
    with _evaluation_mode(model), warnings.catch_warnings():
        # torch.export on a recurrent layer: its flat weights are views of its parameters, nothing is lost.
        warnings.filterwarnings("ignore", message="The tensor attributes? self", category=UserWarning)
        signature = options.pop("signature", None) or _signature(SequenceModel(model, settings, "cpu"), example)
        if options.get("conda_env") is None:
            pip_requirements = [
                *(pip_requirements if pip_requirements is not None else get_default_pip_requirements()),
                *(extra_pip_requirements or ()),
            ]
        arguments = example.arguments(model, settings.config())
        mlflow.pytorch.save_model(
            model,
            str(path),
            mlflow_model=mlflow_model,
            input_example=example.data.x if arguments is None else tuple(arguments.values()),
            signature=signature if arguments is None else _signature_of_arguments(arguments),
            serialization_format=serialization_format,
            pip_requirements=pip_requirements,
            **options,
        )
    if arguments is not None:
        _finish(mlflow_model, signature)
    settings.save(path)
    if others is not None:
        save_reference(others, path)
    mlflow_model.add_flavor(FLAVOR_NAME, data=SETTINGS_FILE, dynamask_version=__version__, task=task)
    python_function = mlflow_model.flavors["python_function"]
    python_function["loader_module"] = _LOADER
    python_function.pop("data", None)  # so that the loader is given the model's root
    python_function.pop("pickle_module_name", None)
    mlflow_model.save(str(Path(path) / "MLmodel"))


def log_model(
    model: torch.nn.Module,
    name: str | None = None,
    *,
    task: str,
    input_example: ArrayLike | Mapping[str, ArrayLike],
    registered_model_name: str | None = None,
    **options: Any,
) -> ModelInfo:
    """Log a network as a model of this flavor, and register it if a name is given.

    Takes everything that `save_model` takes, and everything that `mlflow.models.Model.log` takes (`metadata`,
    `params`, `tags`, `step`, `model_type`, `model_id`, `await_registration_for`).

    Example:
        >>> import dynamask_mlflow, mlflow, torch
        >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(10, 2))
        >>> with mlflow.start_run():
        ...     info = log_model(network, name="tiny", task="classification", input_example=np.zeros((2, 5, 2)))
        >>> dynamask_mlflow.load_model(info.model_uri).settings.channels
        2
    """
    from mlflow.models import Model

    info: ModelInfo = Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        model=model,
        task=task,
        input_example=input_example,
        registered_model_name=registered_model_name,
        **options,
    )
    return info


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    """MLflow hands what it does not know to `torch.save`, which a pt2 model never calls: a slip would go unnoticed."""
    import mlflow.pytorch
    import torch

    known = {*inspect.signature(mlflow.pytorch.save_model).parameters, *inspect.signature(torch.save).parameters}
    for name in options:
        if name in _LABELS:
            raise ValueError(f"Expected {name} within labels, labels={{{name!r}: ...}}, but it stands beside them.")
        if name not in known:
            own = [*inspect.signature(save_model).parameters, *known]
            near = difflib.get_close_matches(name, own, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"Expected an option of save_model or of mlflow.pytorch, but got {name!r}.{hint}")


def _labels(given: Mapping[str, Any] | None) -> dict[str, Any]:
    for name in given or {}:
        if name not in _LABELS:
            raise ValueError(f"Expected labels to hold {', '.join(_LABELS)}, but got {name!r}.")
    return {name: value if isinstance(value, str) else tuple(value) for name, value in (given or {}).items()}


def _signature(model: SequenceModel, example: Example) -> ModelSignature:
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    result = model.predict(example.data)
    return ModelSignature(
        inputs=example.inputs_schema(),
        outputs=Schema([TensorSpec(result.dtype, (-1, *result.shape[1:]))]),
        params=inference_params(),
    )


def _signature_of_arguments(arguments: Mapping[str, NDArray[Any]]) -> ModelSignature:
    """What the network itself takes, for its export alone: the batch is of any size."""
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    return ModelSignature(
        inputs=Schema([TensorSpec(np.dtype(np.float32), (-1, *v.shape[1:]), name) for name, v in arguments.items()])
    )


def _finish(mlflow_model: Model, signature: ModelSignature) -> None:
    """The model's own signature, and the python_function that MLflow leaves out for networks of several inputs."""
    from mlflow import pyfunc

    mlflow_model.signature = signature
    if "python_function" not in mlflow_model.flavors:
        pyfunc.add_to_model(
            mlflow_model,
            loader_module=_LOADER,
            conda_env="conda.yaml",
            python_env="python_env.yaml",
            model_config={"device": None},
        )


@contextmanager
def _evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Export as at inference (dropout off); training goes on as before afterwards."""
    before = [(module, module.training) for module in model.modules()]
    for module, _ in before:
        module.training = False
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
