"""An instance feels neither its neighbours nor their order nor the size of the batch, to the last bit."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from networks import Attention, Convolutional, LongMemory, Recurrent, sequences, with_seed
from torch import Tensor
from white_boxes import high_segment, latched_beside_faint_cells, spikes

from dynamask_mlflow import Masks, explain
from dynamask_mlflow.masks import batching

NUMBER = 5
LENGTHS = np.array([16, 9, 12, 16, 5])
X = sequences(NUMBER, 16, 4)


def same_bits(one: Masks, other: Masks) -> None:
    for name in [field.name for field in fields(Masks) if field.name not in ("diagnostics", "config", "areas")]:
        first, second = getattr(one, name), getattr(other, name)
        assert (first is None) == (second is None)
        if first is not None:
            np.testing.assert_array_equal(first, second, err_msg=name)
    for name, values in one.diagnostics.items():
        np.testing.assert_array_equal(values, other.diagnostics[name], err_msg=name)


def in_any_batch(explained: Callable[[np.ndarray], Masks], number: int = NUMBER) -> None:
    whole = explained(np.arange(number))
    order = np.random.default_rng(0).permutation(number)
    same_bits(explained(order), whole[order])
    same_bits(Masks.concatenate([explained(np.array([row])) for row in range(number)]), whole)


def value(x: Tensor) -> Tensor:
    return (x * torch.linspace(-1, 2, x[0].numel()).view(x.shape[1:])).tanh().sum((1, 2))


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gru": (with_seed(Recurrent), {}),
    "lstm": (with_seed(LongMemory), {}),
    "transformer": (with_seed(Attention), {}),
    "convolution": (with_seed(Convolutional), {}),
    "value": (value, {"task": "regression"}),
    "reference": (with_seed(Recurrent), {"reference": sequences(12, 16, 4, seed=9)}),
    "three operators": (with_seed(Recurrent), {"operators": ["zero", "time_mean", "blur:1"]}),
    "every step": (with_seed(Recurrent, 4, 2, True), {"steps": 12}),
    "deletion": (with_seed(Recurrent), {"deletion": True, "steps": 8}),
}


@pytest.mark.parametrize("name", ["gru", "transformer", "convolution"])
def test_one_instance_is_explained_as_among_many(name: str) -> None:
    model, options = MODELS[name]
    many = sequences(21, 16, 4)
    whole = explain(model, many, progress=False, **options)
    same_bits(explain(model, many[17:18], progress=False, **options), whole[17:18])


@pytest.mark.parametrize("name", MODELS)
def test_alone_among_others_and_in_another_order(name: str) -> None:
    model, options = MODELS[name]
    in_any_batch(lambda rows: explain(model, X[rows], progress=False, **options))


def test_with_lengths() -> None:
    model = with_seed(Recurrent)
    in_any_batch(lambda rows: explain(model, X[rows], lengths=LENGTHS[rows], progress=False))


def test_where_some_are_challenged_and_some_are_not() -> None:
    x = torch.cat([high_segment(3), spikes(4).x])[torch.tensor([0, 3, 1, 4, 5, 2, 6])]

    def both(z: Tensor) -> Tensor:
        return latched_beside_faint_cells(z) + spikes().model(z) * torch.tensor([0.0, 1.0])

    assert len(set(explain(both, x, progress=False).algorithm)) == 2
    in_any_batch(lambda rows: explain(both, x[rows], progress=False), 7)


@pytest.mark.parametrize("name", ["gru", "lstm", "every step"])
def test_in_many_small_batches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, options = MODELS[name]
    x = sequences(11, 16, 4)
    whole = explain(model, x, progress=False, **options)
    monkeypatch.setattr(batching, "_MOST_ON_CPU", batching.LEAST)
    same_bits(explain(model, x, progress=False, **options), whole)


def test_sums_over_the_first_axis_do_not_depend_on_the_place() -> None:
    values = torch.randn(8, 37, generator=torch.Generator().manual_seed(0))
    total = batching.added_up(values)
    torch.testing.assert_close(total, values.sum(0))
    for column in range(37):
        assert torch.equal(batching.added_up(values[:, column : column + 1])[0], total[column])
