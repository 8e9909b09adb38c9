"""Error bars: how far coefficients and channels' shares move when one baseline alone makes the ordering."""

from __future__ import annotations

import torch
from torch import Tensor

from dynamask_mlflow.masks.gradient_scores import gradient_scores
from dynamask_mlflow.masks.path_attribution import PathAttributions
from dynamask_mlflow.masks.ranking import Order, handed_out


def spread_over_baselines(
    coefficients: Tensor, paths: PathAttributions, exists: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Root mean square deviations from the coefficients (B, T, d), and from the channels' shares of them (B, d).

    Under each baseline the cells are ordered anew by its own gradient scores, and the coefficients handed out in that
    order. It costs no pass of the model.
    """
    by_cell = torch.zeros_like(coefficients)
    by_channel = torch.zeros_like(coefficients[:, 0])
    share = _channel_shares(coefficients)
    for operator, weight in enumerate(paths.weights):
        alone = paths.gradients[operator, None], paths.variation[operator, None], torch.ones_like(weight)[None]
        other = handed_out(coefficients, Order.of(gradient_scores(*alone, exists), exists))
        by_cell = by_cell + weight[:, None, None] * (other - coefficients).square()
        by_channel = by_channel + weight[:, None] * (_channel_shares(other) - share).square()
    return by_cell.sqrt(), by_channel.sqrt()


def _channel_shares(coefficients: Tensor) -> Tensor:
    total = coefficients.sum((1, 2)).clamp(min=1e-12)
    return coefficients.sum(1) / total[:, None]
