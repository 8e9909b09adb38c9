"""Whether masks depend on the weights of the model: the same masks for a model of random weights explain nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.metrics import rank_correlation

if TYPE_CHECKING:
    import torch


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
    alike = [rank_correlation(a[where], b[where]) for a, b, where in zip(first, second, exists, strict=True)]
    known = [value for value in alike if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")
