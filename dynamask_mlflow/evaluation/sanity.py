"""Checks of the model itself: are its outputs repeatable, and do the masks depend on its weights?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    from dynamask_mlflow.evaluation.sequences import Sequences
    from dynamask_mlflow.masks.binding import Binding
    from dynamask_mlflow.masks.config import ExplainConfig


@contextmanager
def randomized_weights(network: torch.nn.Module, seed: int) -> Iterator[None]:
    """Replace every weight by noise of the same mean and spread, layer by layer; restore all afterwards."""
    import torch

    before = [(weights, weights.detach().clone()) for weights in network.parameters()]
    generator = torch.Generator().manual_seed(seed)
    try:
        with torch.no_grad():
            for weights, original in before:
                spread = original.std(unbiased=False) if original.numel() > 1 else original.abs()
                noise = torch.randn(original.shape, generator=generator).to(original)
                weights.copy_(original.mean() + spread * noise)
        yield
    finally:
        with torch.no_grad():
            for weights, original in before:
                weights.copy_(original)


def rank_similarity(
    first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]], exists: NDArray[np.bool_]
) -> float:
    """Mean over the instances of Spearman's correlation between two scores of the cells that exist; ties share a rank.

    Near 0 the masks depend on the weights; near 1 they would be the same for any model.
    """
    from scipy.stats import rankdata

    found = []
    for a, b, where in zip(first, second, exists, strict=True):
        ranks = [rankdata(values[where]) for values in (a, b)]
        if all(len(np.unique(places)) > 1 for places in ranks):
            found.append(np.corrcoef(ranks[0], ranks[1])[0, 1])
    return float(np.mean(found)) if found else float("nan")


def random_outputs(network: torch.nn.Module, sample: Sequences, config: ExplainConfig) -> bool:
    """Whether two forward passes on the same input differ by more than rounding."""
    import torch

    from dynamask_mlflow.masks.black_box import frozen, resolve_device
    from dynamask_mlflow.masks.model_output import read_output

    where = resolve_device(config.device)
    binding, rows = bind(network, sample, config), torch.arange(len(sample))
    model, asked = binding.model_of(rows, where), binding.inputs_of(rows, where)
    with frozen(network, where), torch.no_grad():
        first, second = (read_output(model(asked)).detach().clone() for _ in range(2))
    return first.shape != second.shape or not torch.allclose(first, second, rtol=1e-4, atol=1e-5, equal_nan=True)


def bind(network: torch.nn.Module, sample: Sequences, config: ExplainConfig) -> Binding:
    """A network and the sequences that it is asked about."""
    import torch

    from dynamask_mlflow.masks.binding import Binding

    return Binding.of(network, torch.as_tensor(sample.x), None, sample.side, config)


def takes_mask(network: torch.nn.Module, sample: Sequences, config: ExplainConfig) -> bool:
    """Whether the network is told which cells were measured."""
    return sample.observed is not None and bool({"observed", "gaps"} & set(bind(network, sample, config).plan.names))
