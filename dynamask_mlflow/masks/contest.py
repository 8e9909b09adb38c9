"""Two orderings of the cells, compared by how much of the departure their first cells keep and remove."""

from __future__ import annotations

import torch
from torch import Tensor

from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.ranking import Order

# Sizes grow by this factor from one cell on, up to a third of the cells.
RATIO = 4
LARGEST_SHARE = 1 / 3
# The challenger's weight is sigmoid(STEEPNESS (lead - LEAD)): it counts where it leads clearly, since the comparison is
# weak evidence about single cells.
LEAD, STEEPNESS = 0.15, 10.0


def contest_sizes(cells: int) -> list[int]:
    """1, 4, 16, ... up to a third of the cells."""
    sizes, size = [1], RATIO
    while size <= LARGEST_SHARE * cells:
        sizes.append(size)
        size *= RATIO
    return sizes


def hold(departure: Departure, order: Order) -> Tensor:
    """(B,) in [-1, 1]: the mean, over sizes, of what the first cells keep alone and of what is lost without them."""
    sizes = contest_sizes(departure.batch.x[0].numel())
    total = torch.zeros_like(departure.score)
    for size in sizes:
        mask = order.first(size)
        total += departure.kept(mask) + departure.lost(mask)
    return total / (2 * len(sizes))


def challenger_weight(present: Tensor, challenger: Tensor) -> Tensor:
    """(B,) in (0, 1) from the holds of both."""
    return torch.sigmoid(STEEPNESS * (challenger - present - LEAD))


def combined_scores(present: Order, challenger: Order, weight: Tensor) -> Tensor:
    """(B, T, d): minus the logarithm of the weighted geometric mean of the places of each cell in both orderings."""
    share = weight[:, None, None]
    return -((1 - share) * present.entry().log() + share * challenger.entry().log())
