"""FIT (Tonekaboni et al., 2020): how much of the shift of the prediction at time t one feature explains."""

from __future__ import annotations

import torch
from torch import Tensor

from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.saliency.generator import Generator, condition
from dynamask_mlflow.saliency.question import Question
from dynamask_mlflow.saliency.seeds import seeded

_MOST_AT_ONCE = 512
_TINY = 1e-7


def feature_importance_in_time(
    question: Question, x: Tensor, generator: Generator, *, seed: int, samples: int = 10
) -> Tensor:
    """I(i, t) = KL(p(y | X_0:t) || p(y | X_0:t-1)) - KL(p(y | X_0:t) || p(y | X_0:t-1, x_t,i)).

    The first term is the shift that the step brings, the second what is left of it when feature i of the step
    is known and the others are drawn from the generator given it; predictions are averaged over the draws.
    p(y | X_0:t) is the model's answer to the sequence up to t: its last one, where it answers at every step.
    At t = 0 nothing is known before, and the whole step is drawn.
    """
    if not question.classification:
        raise ModelError("Expected a classifier for method 'fit', which compares class distributions, but got values.")
    with torch.no_grad(), seeded(seed):
        mean, root = generator(x)
        noise = torch.randn(samples, x.shape[1], x.shape[2]).to(x.device)
        return torch.stack([_instance(question, x[row], mean[row], root[row], noise) for row in range(len(x))])


def _instance(question: Question, x: Tensor, mean: Tensor, root: Tensor, noise: Tensor) -> Tensor:
    steps, channels = x.shape
    scores = torch.zeros_like(x)
    before: Tensor | None = None
    for t in range(steps):
        now = _answers(question, x[None, : t + 1])[0]
        joint = mean[t] + noise[:, t] @ root[t].T
        if before is None:
            before = _answers(question, joint[:, None]).mean(0)
        known = condition(joint, root[t] @ root[t].T, x[t])
        prefix = x[: t + 1].expand(known.shape[0] * known.shape[1], -1, -1).clone()
        prefix[:, t] = known.flatten(0, 1)
        given = _answers(question, prefix).view(channels, len(noise), -1).mean(1)
        scores[t] = _divergence(now, before) - _divergence(now, given)
        before = now
    return scores


def _answers(question: Question, prefix: Tensor) -> Tensor:
    """(B, C): class probabilities after the last step of the prefix."""
    try:
        parts = [
            question.outputs(prefix[start : start + _MOST_AT_ONCE])[:, -1].softmax(-1)
            for start in range(0, len(prefix), _MOST_AT_ONCE)
        ]
    except Exception as error:
        raise ModelError(
            "Expected a model that answers sequences of any length for method 'fit', asking about the first "
            f"{prefix.shape[1]} steps, but it failed with {type(error).__name__}: {error}"
        ) from error
    return torch.cat(parts)


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) over the last axis."""
    p, q = p.clamp(min=_TINY), q.clamp(min=_TINY)
    return (p * (p.log() - q.log())).sum(-1)
