"""Methods that sample coalitions of cells: Shapley Value Sampling and LIME, by captum; and the random
baseline.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch
from torch import Tensor

from dynamask_mlflow.saliency.question import Question
from dynamask_mlflow.saliency.seeds import seeded

_MOST_AT_ONCE = 256


def shapley_value_sampling(question: Question, x: Tensor, baseline: Tensor, *, seed: int, samples: int = 10) -> Tensor:
    """SVS: the mean gain of the value as cell (t, i) joins the cells before it in a random order.

    Efficient: the scores of an instance sum to value(x) - value(baseline). Costs `samples` x T x d
    predictions.
    """
    from captum.attr import ShapleyValueSampling

    with torch.no_grad(), seeded(seed):
        scores: Tensor = ShapleyValueSampling(question.value).attribute(
            x,
            baselines=baseline,
            additional_forward_args=question.context,
            n_samples=samples,
            perturbations_per_eval=max(1, _MOST_AT_ONCE // len(x)),
        )
    return scores.detach().to(x.dtype)


def lime(question: Question, x: Tensor, baseline: Tensor, *, seed: int, samples: int = 500) -> Tensor:
    """LIME: weights of a ridge regression of the value on which cells are present, near samples weighing
    more.
    """
    from captum._utils.models.linear_model import SkLearnRidge
    from captum.attr import Lime

    method = Lime(question.value, interpretable_model=SkLearnRidge(alpha=1.0))
    parts = []
    for row in range(len(x)):
        one = question.rows(slice(row, row + 1))
        with torch.no_grad(), seeded(seed, numpy=True):
            parts.append(
                method.attribute(
                    x[row : row + 1],
                    baselines=baseline[row : row + 1],
                    additional_forward_args=one.context,
                    n_samples=samples,
                    perturbations_per_eval=min(_MOST_AT_ONCE, samples),
                ).detach()
            )
    return torch.cat(parts).to(x.dtype)


def random_scores(x: Tensor, *, seed: int) -> Tensor:
    """Uniform scores that depend on the seed and on the instance itself, not on its place in the batch."""
    parts = []
    for instance in x.cpu().numpy():
        generator = np.random.default_rng([seed, zlib.crc32(np.ascontiguousarray(instance).tobytes())])
        parts.append(generator.random(instance.shape, dtype=np.float32))
    return torch.from_numpy(np.stack(parts)).to(x.device)
