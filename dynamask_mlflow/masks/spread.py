"""Error bars: how far coefficients and channels' contributions move when one baseline alone is used."""

from __future__ import annotations

import torch
from torch import Tensor

from dynamask_mlflow.masks.gradient_scores import gradient_scores
from dynamask_mlflow.masks.path_attribution import PathAttributions
from dynamask_mlflow.masks.ranking import Order, handed_out


def spread_over_baselines(
    coefficients: Tensor, paths: PathAttributions, exists: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Root mean square deviations of the coefficients (B, T, d), and of the channels' contributions (B, d).

    Under each baseline the cells are ordered anew by its own gradient scores, and the coefficients handed out in that
    order. A channel's contribution is the sum of its attributions, in the target's units: the integrals under each
    baseline alone, and what these missed, which is handed out by the channels' shares of the coefficients. It costs no
    pass of the model.
    """
    by_cell = torch.zeros_like(coefficients)
    contribution = torch.zeros_like(coefficients[:, 0])
    in_share = torch.zeros_like(contribution)
    share, mean = _channel_shares(coefficients), paths.integrals.sum(1)
    for operator, weight in enumerate(paths.weights):
        alone = paths.gradients[operator, None], paths.variation[operator, None], torch.ones_like(weight)[None]
        other = handed_out(coefficients, Order.of(gradient_scores(*alone, exists), exists))
        by_cell = by_cell + weight[:, None, None] * (other - coefficients).square()
        in_share = in_share + weight[:, None] * (_channel_shares(other) - share).square()
        contribution = contribution + weight[:, None] * (paths.by_operator[operator].sum(1) - mean).square()
    return by_cell.sqrt(), (contribution + paths.missed[:, None].square() * in_share).sqrt()


def _channel_shares(coefficients: Tensor) -> Tensor:
    total = coefficients.sum((1, 2)).clamp(min=1e-12)
    return coefficients.sum(1) / total[:, None]
