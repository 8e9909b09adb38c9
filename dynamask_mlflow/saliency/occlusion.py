"""Methods that replace one cell at a time and watch how far the answer moves: FO, AFO and FP."""

from __future__ import annotations

import torch
from torch import Tensor

from dynamask_mlflow.saliency.question import Question
from dynamask_mlflow.saliency.seeds import seeded

_MOST_AT_ONCE = 256


def feature_occlusion(question: Question, x: Tensor, replacement: Tensor) -> Tensor:
    """FO: the change of the answer when cell (t, i) alone becomes replacement_ti, by captum's
    FeatureAblation.
    """
    from captum.attr import FeatureAblation

    with torch.no_grad():
        drop: Tensor = FeatureAblation(question.change).attribute(
            x,
            baselines=replacement,
            additional_forward_args=question.context,
            perturbations_per_eval=max(1, _MOST_AT_ONCE // len(x)),
        )
    # captum gives change(x) - change(x with the cell replaced), and change(x) is 0.
    return -drop.detach()


def augmented_feature_occlusion(
    question: Question, x: Tensor, pool: Tensor | None, exists: Tensor | None, *, seed: int, draws: int = 5
) -> Tensor:
    """AFO: occlusion by values drawn from the channel's distribution, averaged over the draws.

    Args:
        pool: (M, T, d) sequences that stand for the distribution; None is the sequence itself.
    """
    members, steps = (1, x.shape[1]) if pool is None else pool.shape[:2]
    with seeded(seed):
        rows = torch.randint(members, (draws, *x.shape[1:])).to(x.device)
        times = torch.randint(steps, (draws, *x.shape[1:])).to(x.device)
    if pool is None:
        index = times[:, None].expand(-1, len(x), -1, -1)
        values = x[None].expand(draws, -1, -1, -1).gather(2, index)
    else:
        values = pool[rows, times, torch.arange(x.shape[2], device=x.device)]
        values = values[:, None].expand(-1, len(x), -1, -1)
    return _mean_occlusion(question, x, values, exists)


def feature_permutation(question: Question, x: Tensor, exists: Tensor | None, *, seed: int, draws: int = 5) -> Tensor:
    """FP: occlusion by the channel's own values in random order of time, averaged over the orders.

    Permuting over time rather than over instances keeps an instance's scores its own. With padding, a cell
    that would receive a value that does not exist keeps its own.
    """
    with seeded(seed):
        order = torch.rand(draws, *x.shape[1:]).argsort(1).to(x.device)
    index = order[:, None].expand(-1, len(x), -1, -1)
    values = x[None].expand(draws, -1, -1, -1).gather(2, index)
    if exists is not None:
        there = exists[None].expand(draws, -1, -1, -1).gather(2, index)
        values = torch.where(there, values, x)
    return _mean_occlusion(question, x, values, exists)


def _mean_occlusion(question: Question, x: Tensor, values: Tensor, exists: Tensor | None) -> Tensor:
    total = torch.zeros_like(x)
    for value in values:
        replacement = value if exists is None else torch.where(exists, value, x)
        total += feature_occlusion(question, x, replacement)
    return total / len(values)
