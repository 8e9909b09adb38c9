"""ExtrMask (Enguehard, 2023): a mask whose perturbation is learned along with it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

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


def extremal_mask(
    question: Question,
    x: Tensor,
    exists: Tensor | None,
    *,
    seed: int,
    steps: int = 500,
    learning_rate: float = 0.01,
    mask_weight: float = 1.0,
    perturbation_weight: float = 1.0,
    deletion: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> Tensor:
    """The mask M (B, T, d) in [0, 1] of

        min over M and theta of  L(f(x), f(M x + (1 - M) NN(x))) + l1 mean|M| + l2 mean|NN(x)|

    with L the soft cross-entropy, or the squared error, summed over the outputs of a sequence as L_e is in
    the paper on masks; averaged instead, the penalties win and the mask stays almost empty. With `deletion`
    the cells inside the mask are replaced, and the answer is drawn to that on the zero input. One network
    serves all sequences of the batch, as in the original: of all methods here this one feels its neighbours.
    """
    target = question.reference
    if deletion:
        with torch.no_grad():
            target = question.outputs(torch.zeros_like(x))
    with seeded(seed), torch.enable_grad():
        network = Perturbation(x.shape[2]).to(x.device)
        mask = torch.full_like(x, 0.5).requires_grad_()
        optimiser = torch.optim.Adam([mask, *network.parameters()], lr=learning_rate)
        for _ in range(steps):
            kept = mask.clamp(0, 1)
            kept = 1 - kept if deletion else kept
            other = network(x)
            mixed = kept * x + (1 - kept) * other
            if exists is not None:
                mixed = torch.where(exists, mixed, x)
            loss = _error(question, question.outputs(mixed), target)
            loss = loss + mask_weight * mask.abs().mean() + perturbation_weight * other.abs().mean()
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimiser.step()
            tick()
    return mask.detach().clamp(0, 1)


def _error(question: Question, y: Tensor, target: Tensor) -> Tensor:
    if question.classification:
        each = -(target.softmax(-1) * y.log_softmax(-1)).sum(-1)
    else:
        each = (y - target).square().sum(-1)
    return (each * question.when).sum() / len(y)
