"""Methods that follow gradients: Integrated Gradients, GradSHAP and DeepLIFT, all by captum."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from dynamask_mlflow.masks.errors import ModelError
from dynamask_mlflow.saliency.question import Question
from dynamask_mlflow.saliency.seeds import seeded

_MOST_AT_ONCE = 256


def integrated_gradients(question: Question, x: Tensor, baseline: Tensor, *, steps: int = 50) -> Tensor:
    """IG_ti = (x - x0)_ti times the mean gradient of the value along the straight line from x0 to x.

    Complete: the scores of an instance sum to value(x) - value(x0), up to the error of the quadrature.
    """
    from captum.attr import IntegratedGradients

    method = IntegratedGradients(question.value)
    scores: Tensor = method.attribute(
        x,
        baselines=baseline,
        additional_forward_args=question.context,
        n_steps=steps,
        internal_batch_size=max(_MOST_AT_ONCE, len(x)),
    )
    return scores.detach()


def gradient_shap(
    question: Question, x: Tensor, baseline: Tensor, pool: Tensor | None, *, seed: int, samples: int = 50
) -> Tensor:
    """GradSHAP: the mean of (x - b) times the gradient at a random point between b and x.

    Args:
        baseline: (B, T, d), b when there is no pool.
        pool: (M, T, d) from which b is drawn.
    """
    from captum.attr import GradientShap

    method = GradientShap(question.value)
    parts = []
    for row in range(len(x)):
        part = slice(row, row + 1)
        # One instance at a time from the same seed: an instance does not feel its neighbours.
        with seeded(seed, numpy=True):
            scores = method.attribute(
                x[part],
                baseline[part] if pool is None else pool,
                n_samples=samples,
                additional_forward_args=question.rows(part).context,
            )
        parts.append(scores.detach())
    return torch.cat(parts)


def deep_lift(question: Question, x: Tensor, baseline: Tensor) -> Tensor:
    """DeepLIFT with the rescale rule.

    The rule is known for activations that are modules. Gates inside recurrent and attention layers are none;
    through them the plain gradient passes, and the method becomes gradient times difference there.
    """
    from captum.attr import DeepLift

    if question.module is None:
        raise ModelError("Expected a torch module for method 'dl', which looks inside it, but got a plain callable.")
    try:
        with warnings.catch_warnings():
            # captum announces its hooks and that it needs gradients by the inputs.
            warnings.simplefilter("ignore", UserWarning)
            scores: Tensor = DeepLift(_Answer(question)).attribute(
                x, baselines=baseline, additional_forward_args=question.context
            )
    except (AssertionError, RuntimeError) as error:
        raise ModelError(
            "Expected a model whose activations are modules, each used once in a forward pass, for method "
            f"'dl', but captum's DeepLift failed with: {error}"
        ) from error
    return scores.detach()


class _Answer(nn.Module):
    """The value as a module, so that captum can hook what is inside."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.inner = question.module
        self.question = question

    def forward(self, x: Tensor, reference: Tensor, when: Tensor) -> Tensor:
        return self.question.value(x, reference, when)
