"""Two orderings of the cells, compared by how much of the departure their first cells keep and remove."""

from __future__ import annotations

import torch
from torch import Tensor

from dynamask_mlflow.masks.batching import added_up
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.mask_size import RATIO, held_shares
from dynamask_mlflow.masks.ranking import Order

# Sizes go up to this share of the cells.
LARGEST_SHARE = 1 / 3
# The challenger's weight is sigmoid(STEEPNESS (lead - LEAD)): it counts where it leads clearly, since the comparison is
# weak evidence about single cells.
LEAD, STEEPNESS = 0.15, 15.0


def contest_sizes(cells: int) -> list[int]:
    """1, 4, 16, ... up to a third of the cells."""
    sizes, size = [1], RATIO
    while size <= LARGEST_SHARE * cells:
        sizes.append(size)
        size *= RATIO
    return sizes


def contest_shares(departure: Departure, order: Order) -> Tensor:
    """(2, K, B): `held_shares` of an ordering at the sizes of a contest."""
    return held_shares(departure, order, contest_sizes(departure.batch.x[0].numel()))


def hold(shares: Tensor) -> Tensor:
    """(B,) in [-1, 1]: the mean, over sizes, of what the first cells keep alone and of what is lost without them."""
    return added_up(shares.flatten(0, 1)) / (shares.shape[0] * shares.shape[1])


def challenger_weight(present: Tensor, challenger: Tensor) -> Tensor:
    """(B,) in (0, 1) from the holds of both."""
    return torch.sigmoid(STEEPNESS * (challenger - present - LEAD))


def combined_scores(present: Order, challenger: Order, weight: Tensor) -> Tensor:
    """(B, T, d): minus the logarithm of the weighted geometric mean of the places of each cell in both orderings."""
    share = weight[:, None, None]
    return -((1 - share) * present.entry().log() + share * challenger.entry().log())
