"""RETAIN (Choi et al., 2016): a model of its own whose attention is the explanation.

It cannot look into another model, so it is trained to give that model's answers, and its contributions are
read.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dynamask_mlflow.saliency.question import Question
from dynamask_mlflow.saliency.seeds import seeded

_MOST_AT_ONCE = 256


class Retain(nn.Module):
    """y = W sum_t alpha_t (beta_t * v_t) + b with v_t = E x_t; both attentions read the sequence backwards in
    time.
    """

    def __init__(self, channels: int, outputs: int, hidden: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(channels, hidden, bias=False)
        self.step_reader = nn.GRU(hidden, hidden, batch_first=True)
        self.feature_reader = nn.GRU(hidden, hidden, batch_first=True)
        self.step_weight = nn.Linear(hidden, 1)
        self.feature_weight = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, outputs)

    def attention(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """alpha (B, T), a softmax over the steps, and beta (B, T, hidden), tanh; steps past the length weigh
        nothing.
        """
        times = torch.arange(x.shape[1], device=x.device)
        last = torch.full((len(x), 1), x.shape[1], device=x.device) if lengths is None else lengths[:, None]
        # Each sequence is turned round within its own length, so that padding is read last and changes
        # nothing.
        turned = torch.where(times < last, last - 1 - times, times)
        backwards = _take(self.embed(x), turned)
        rates = _take(self.step_weight(self.step_reader(backwards)[0]), turned)[..., 0]
        alpha = rates.masked_fill(times >= last, -torch.inf).softmax(-1)
        beta = _take(torch.tanh(self.feature_weight(self.feature_reader(backwards)[0])), turned)
        return alpha, beta

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        alpha, beta = self.attention(x, lengths)
        out: Tensor = self.head((alpha[..., None] * beta * self.embed(x)).sum(1))
        return out

    def contributions(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """omega (B, T, d, outputs): alpha_t W (beta_t * E_i) x_ti. Summed over the cells, plus b, they give
        y.
        """
        alpha, beta = self.attention(x, lengths)
        each = torch.einsum("bt,bth,oh,hi->btio", alpha, beta, self.head.weight, self.embed.weight)
        return each * x[..., None]


def _take(values: Tensor, order: Tensor) -> Tensor:
    return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))


def train_retain(question: Question, x: Tensor, *, seed: int, steps: int = 300, batch_size: int = 64) -> Retain:
    """Teach RETAIN the black box's answers on sequences x; where it answers at every step, on random
    beginnings.
    """
    with torch.no_grad():
        answers = torch.cat([question.outputs(x[s : s + _MOST_AT_ONCE]) for s in range(0, len(x), _MOST_AT_ONCE)])
    if question.classification:
        answers = answers.softmax(-1)
    per_step = answers.shape[1] > 1
    with seeded(seed), torch.enable_grad():
        model = Retain(x.shape[2], answers.shape[2]).to(x.device)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(steps):
            rows = torch.randint(len(x), (min(batch_size, len(x)),), device=x.device)
            lengths = torch.full_like(rows, x.shape[1])
            if per_step:
                lengths = torch.randint(1, x.shape[1] + 1, rows.shape, device=x.device)
            wanted = answers[rows, lengths - 1 if per_step else 0]
            loss = _loss(model(x[rows], lengths), wanted, question.classification)
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
    return model.eval()


def _loss(given: Tensor, wanted: Tensor, classification: bool) -> Tensor:
    if classification:
        return nn.functional.cross_entropy(given, wanted)
    return nn.functional.mse_loss(given, wanted)


def retain_scores(question: Question, x: Tensor, model: Retain) -> Tensor:
    """Sum over the output times of |omega|, for the class that the black box chose, against the mean of the
    classes.
    """
    total = torch.zeros_like(x)
    outputs, steps = question.reference.shape[1], x.shape[1]
    chosen = question.reference.argmax(-1)
    with torch.no_grad():
        for s in range(outputs):
            length = s + 1 if outputs == steps else steps
            omega = model.contributions(x[:, :length])
            if question.classification:
                index = chosen[:, s, None, None, None].expand(-1, length, x.shape[2], 1)
                credit = omega.gather(-1, index)[..., 0] - omega.mean(-1)
            else:
                credit = omega.sum(-1)
            total[:, :length] += credit.abs() * question.when[:, s, None, None]
    return total
