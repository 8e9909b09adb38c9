"""Networks of torch that differentiate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dynamask_mlflow.experiments.zoo import networks, planted
from dynamask_mlflow.experiments.zoo.entry import Entry
from dynamask_mlflow.experiments.zoo.planted import CHANNELS, CODES, HORIZONS, STEPS, Planted
from dynamask_mlflow.experiments.zoo.training import Answer, train_network
from dynamask_mlflow.masks.model_output import read_output
from dynamask_mlflow.masks.side_inputs import gaps_between

Build = Callable[[], nn.Module]
Arrays = dict[str, NDArray[Any]]


def _x(data: Planted) -> Arrays:
    return {"x": data.x}


def _channels_first(data: Planted) -> Arrays:
    return {"x": np.ascontiguousarray(data.x.transpose(0, 2, 1))}


def _lengths(data: Planted) -> Arrays:
    assert data.lengths is not None
    return {"x": data.x, "lengths": data.lengths}


def _padding_mask(data: Planted) -> Arrays:
    assert data.lengths is not None
    return {"x": data.x, "padding_mask": np.arange(STEPS) >= data.lengths[:, None]}


def _gru_d(data: Planted) -> Arrays:
    mask = np.asarray(data.observed, dtype=np.float32)
    return {"values": data.x, "mask": mask, "delta": gaps_between(torch.as_tensor(mask)).numpy(), **data.extras}


def _codes(data: Planted) -> Arrays:
    return {"x": data.x, **data.extras}


def _answer(network: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    return read_output(network(**batch))


def _by_dictionary(network: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    out: Tensor = network({"values": batch["x"], "sizes": batch["lengths"]})
    return out


def by_pytorch(
    build: Build,
    arguments: Callable[[Planted], Arrays] = _x,
    change: Callable[[nn.Module], nn.Module] = lambda network: network,
    **options: Any,
) -> Callable[[Planted, str], str]:
    """Register a network by `mlflow.pytorch`, as most teams do; `change` is made after the training."""

    def register(data: Planted, name: str) -> str:
        import mlflow.pytorch

        given = arguments(data)
        network = change(train_network(build, given, data.y, answer=_answer, **options))
        several = len(given) > 1
        info = mlflow.pytorch.log_model(
            network,
            name=name,
            input_example=None if several else next(iter(given.values()))[:2],
            signature=_signature(given),
            registered_model_name=name,
            serialization_format="pickle",
            pip_requirements=["torch"],  # found out by loading the model in a process of its own otherwise
        )
        return _uri(info)

    return register


def by_our_flavor(
    build: Build,
    arguments: Callable[[Planted], Arrays],
    answer: Answer = _answer,
    training: Mapping[str, Any] | None = None,
    **options: Any,
) -> Callable[[Planted, str], str]:
    """Register a network with `dynamask_mlflow.log_model`."""

    def register(data: Planted, name: str) -> str:
        from dynamask_mlflow.tracking.flavor import log_model

        network = train_network(build, arguments(data), data.y, answer=answer, **(training or {}))
        example = {"x": data.x, "lengths": data.lengths, "observed": data.observed, **data.extras}
        info = log_model(
            network,
            name,
            task="classification",
            input_example={key: values[:2] for key, values in example.items() if values is not None},
            registered_model_name=name,
            pip_requirements=["torch"],
            **options,
        )
        return _uri(info)

    return register


def _signature(given: Arrays) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    named = len(given) > 1
    specs: list[Any] = [
        TensorSpec(values.dtype, (-1, *values.shape[1:]), name if named else None) for name, values in given.items()
    ]
    return ModelSignature(inputs=Schema(specs))


def _uri(info: Any) -> str:
    return f"models:/{info.name}/{info.registered_model_version}"


def _patch_tst() -> nn.Module:
    from transformers import PatchTSTConfig, PatchTSTForClassification

    config = PatchTSTConfig(
        num_input_channels=CHANNELS,
        context_length=STEPS,
        patch_length=4,
        patch_stride=2,
        num_targets=2,
        d_model=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        attention_dropout=0.0,
        ff_dropout=0.0,
        head_dropout=0.0,
        scaling=None,
        use_cls_token=False,
        pooling_type="mean",
    )
    network: nn.Module = PatchTSTForClassification(config)
    return network


def _lightning() -> nn.Module:
    from lightning import LightningModule

    class Lit(LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = networks.Gru(CHANNELS)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.body(x)
            return out

    return Lit()


def _script(network: nn.Module) -> nn.Module:
    script: nn.Module = torch.jit.trace(network, torch.zeros(2, STEPS, CHANNELS), check_trace=False)  # type: ignore[no-untyped-call]
    return script


_GRU, _TCN = partial(networks.Gru, CHANNELS), partial(networks.Tcn, CHANNELS)
_VALUES = {"values": "x", "mask": "observed", "delta": "gaps"}
_MSE = nn.functional.mse_loss
_CHARTING = by_our_flavor(
    partial(networks.GruDAlone, CHANNELS),
    _gru_d,
    training={"epochs": 20, "rate": 1e-2},
    inputs=_VALUES,
    serialization_format="pickle",
)

ENTRIES = (
    Entry("gru", "one tensor (B, T, d)", by_pytorch(_GRU)),
    Entry("tcn", "dilated convolutions", by_pytorch(_TCN)),
    Entry("inception", "InceptionTime-like", by_pytorch(partial(networks.Inception, CHANNELS))),
    Entry(
        "gru-lengths",
        "`forward(x, lengths)`, packs its sequences",
        by_pytorch(partial(networks.Packed, CHANNELS), _lengths),
        planted.unequal_lengths,
    ),
    Entry(
        "lstm-lengths",
        "the same with an LSTM",
        by_pytorch(partial(networks.Packed, CHANNELS, nn.LSTM), _lengths),
        planted.unequal_lengths,
    ),
    Entry(
        "transformer-padding",
        "`forward(x, padding_mask=None)`",
        by_our_flavor(partial(networks.Transformer, CHANNELS), _padding_mask),
        planted.unequal_lengths,
    ),
    Entry(
        "channels-first",
        "(B, d, T), by the signature",
        by_pytorch(partial(networks.ChannelsFirst, CHANNELS), _channels_first),
    ),
    Entry("float64", "weights in double precision", by_pytorch(_GRU, change=lambda network: network.double())),
    Entry("bfloat16", "weights in bfloat16", by_pytorch(_GRU, change=lambda network: network.to(torch.bfloat16))),
    Entry("float16", "weights in half precision", by_pytorch(_TCN, change=lambda network: network.half())),
    Entry(
        "dict-input",
        "`forward(batch)`, a dictionary; `inputs=`",
        by_our_flavor(
            partial(networks.DictGru, CHANNELS),
            _lengths,
            _by_dictionary,
            inputs={"values": "x", "sizes": "lengths"},
            serialization_format="pickle",
        ),
        planted.unequal_lengths,
    ),
    Entry(
        "gru-d",
        "values, mask, gaps and static features; `inputs=`",
        by_our_flavor(
            partial(networks.GruDWithStatic, CHANNELS, 2),
            _gru_d,
            training={"epochs": 25, "rate": 1e-2},
            inputs={**_VALUES, "static": "static"},
            serialization_format="pickle",
        ),
        planted.partly_measured,
    ),
    Entry(
        "charting",
        "GRU-D, being measured carries the label; operator `missing`",
        _CHARTING,
        planted.charting,
        options={"operators": ["missing"]},
        training=2500,
    ),
    Entry(
        "charting-values",
        "the same, with masks of values",
        _CHARTING,
        planted.charting,
        training=2500,
    ),
    Entry(
        "embedding",
        "`forward(x, codes)`",
        by_pytorch(partial(networks.Embedding, CHANNELS, CODES), _codes),
        planted.coded,
    ),
    Entry("tuple-output", "returns (logits, states)", by_pytorch(partial(networks.WithStates, CHANNELS))),
    Entry("field-output", "returns an object with fields", by_pytorch(partial(networks.WithFields, CHANNELS))),
    Entry(
        "hf-patchtst",
        "PatchTSTForClassification of Hugging Face, ModelOutput",
        by_pytorch(_patch_tst, lambda data: {"past_values": data.x}, rate=2e-3),
        needs=("transformers",),
    ),
    Entry("torchscript", "a traced network", by_pytorch(_GRU, change=_script)),
    Entry("lightning", "a LightningModule", by_pytorch(_lightning), needs=("lightning",)),
    Entry(
        "forecast",
        "values at three horizons (B, H)",
        by_pytorch(partial(networks.Forecaster, CHANNELS, HORIZONS, False), loss=_MSE),
        planted.forecast,
        "sequence-regressor",
    ),
    Entry(
        "forecast-horizon",
        'the same, `target="horizon:2"`',
        by_pytorch(partial(networks.Forecaster, CHANNELS, HORIZONS, False), loss=_MSE),
        planted.forecast,
        "sequence-regressor",
        options={"target": "horizon:2", "methods": ["nested"]},
        other_methods=(),
    ),
    Entry(
        "forecast-channels",
        "values of every channel (B, H, d)",
        by_pytorch(partial(networks.Forecaster, CHANNELS, HORIZONS, True), loss=_MSE),
        planted.forecast_of_channels,
        "sequence-regressor",
    ),
)
