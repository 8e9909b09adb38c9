"""ExtrMask (Enguehard, 2023): a mask whose perturbation is learned along with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dynamask_mlflow.masks.objective import Discrepancy
from dynamask_mlflow.saliency.question import Question
from dynamask_mlflow.saliency.seeds import seeded


class Perturbation(nn.Module):
    """What removed cells become: a two-way GRU over the sequence and a small head."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.recurrent = nn.GRU(channels, channels, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.recurrent(x)[0])
        return out


@dataclass(frozen=True, kw_only=True)
class Descent:
    """How the mask is fitted; `loss` and `deletion` are explained at `extremal_mask`."""

    seed: int = 0
    steps: int = 500
    learning_rate: float = 0.01
    loss: str = "auto"
    deletion: bool = False


def extremal_mask(
    question: Question, x: Tensor, exists: Tensor | None, how: Descent, tick: Callable[[], None] = lambda: None
) -> Tensor:
    """The mask M (B, T, d) in [0, 1] of

        min over M and theta of  L(f(x), f(M x + (1 - M) NN(x))) + mean|M| + mean|NN(x)|

    with, as published, L the mean squared error of the outputs (values, or logits at every step), or
    the mean soft cross-entropy for one class a sequence. A named `loss` is summed over the outputs of a sequence, as
    L_e is in the paper on masks: the answer then outweighs the penalties, and the mask keeps more cells. With
    `deletion` the cells inside the mask are replaced, and the answer is drawn to that on the zero input. One network
    serves all sequences of the batch, as in the original: of all methods here this one feels its neighbours.
    """
    target = question.reference
    if how.deletion:
        with torch.no_grad():
            target = question.outputs(torch.zeros_like(x))
    error = _published(question, target) if how.loss == "auto" else _summed(question, target, how.loss)
    with seeded(how.seed), torch.enable_grad():
        network = Perturbation(x.shape[2]).to(x.device)
        mask = torch.full_like(x, 0.5).requires_grad_()
        optimiser = torch.optim.Adam([mask, *network.parameters()], lr=how.learning_rate)
        for _ in range(how.steps):
            kept = mask.clamp(0, 1)
            kept = 1 - kept if how.deletion else kept
            other = network(x)
            mixed = kept * x + (1 - kept) * other
            if exists is not None:
                mixed = torch.where(exists, mixed, x)
            cost = error(question.outputs(mixed)) + mask.abs().mean() + other.abs().mean()
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(cost)
            optimiser.step()
            tick()
    return mask.detach().clamp(0, 1)


def _published(question: Question, target: Tensor) -> Callable[[Tensor], Tensor]:
    one_class = question.classification and target.shape[1] == 1
    loss = Discrepancy(target, "cross_entropy", question.classification, question.when)
    weight = question.when[..., None].expand_as(target)

    def error(outputs: Tensor) -> Tensor:
        if one_class:
            return loss(outputs).mean()
        return ((outputs - target).square() * weight).sum() / weight.sum()

    return error


def _summed(question: Question, target: Tensor, loss: str) -> Callable[[Tensor], Tensor]:
    discrepancy = Discrepancy(target, loss, question.classification, question.when)
    return lambda outputs: discrepancy(outputs).mean()
