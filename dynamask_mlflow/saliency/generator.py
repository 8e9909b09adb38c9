"""FIT's conditional generator: the next step as a Gaussian whose mean and covariance a GRU reads off the
past.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dynamask_mlflow.saliency.seeds import seeded


class Generator(nn.Module):
    """p(x_t | x_0 ... x_{t-1}) = N(mu_t, L_t L_t')."""

    def __init__(self, channels: int, hidden: int = 64) -> None:
        super().__init__()
        self.channels = channels
        self.recurrent = nn.GRU(channels, hidden, batch_first=True)
        self.mean = nn.Linear(hidden, channels)
        self.root = nn.Linear(hidden, channels * (channels + 1) // 2)
        nn.init.zeros_(self.root.weight)
        nn.init.zeros_(self.root.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """mu (B, T, d) and L (B, T, d, d): at step t from the steps before it alone."""
        past = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        states = self.recurrent(past)[0]
        rows, columns = torch.tril_indices(self.channels, self.channels)
        entries = self.root(states)
        # exp keeps the diagonal positive; entries start at 0, so L starts as the identity.
        entries = torch.where((rows == columns).to(x.device), entries.clamp(-6, 6).exp(), entries)
        root = x.new_zeros(*states.shape[:2], self.channels, self.channels)
        root[..., rows, columns] = entries
        return self.mean(states), root

    def loss(self, x: Tensor) -> Tensor:
        """Negative log-likelihood of a step, averaged."""
        mean, root = self(x)
        white = torch.linalg.solve_triangular(root, (x - mean)[..., None], upper=False)[..., 0]
        log_root = root.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        constant = 0.5 * self.channels * math.log(2 * math.pi)
        loss: Tensor = (0.5 * white.square().sum(-1) + log_root).mean() + constant
        return loss


def condition(sample: Tensor, covariance: Tensor, observed: Tensor) -> Tensor:
    """Make joint samples into samples given one channel: (K, d) to (d, K, d), where [i] knows channel i.

    Matheron's rule: x | x_i = z + Sigma_{., i} / Sigma_ii (x_i - z_i) for z from the joint distribution.

    Args:
        sample: (K, d) from N(mu, Sigma).
        covariance: (d, d) Sigma.
        observed: (d,) the values x_i.
    """
    gain = covariance / covariance.diagonal()[None, :]
    shift = (observed[None, :] - sample).T
    known = sample[None] + shift[:, :, None] * gain.T[:, None, :]
    itself = torch.eye(len(observed), dtype=torch.bool, device=sample.device)[:, None]
    return torch.where(itself, observed, known)


def train_generator(x: Tensor, *, seed: int, steps: int = 300, batch_size: int = 64) -> Generator:
    """Fit the generator to sequences x (M, T, d) by maximum likelihood."""
    with seeded(seed), torch.enable_grad():
        generator = Generator(x.shape[2]).to(x.device)
        optimiser = torch.optim.Adam(generator.parameters(), lr=1e-2)
        for _ in range(steps):
            rows = torch.randint(len(x), (min(batch_size, len(x)),), device=x.device)
            loss = generator.loss(x[rows])
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(generator.parameters(), 1.0)
            optimiser.step()
    return generator.eval()
