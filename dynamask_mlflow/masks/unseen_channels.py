"""Channels that move the answer without a gradient: a network that embeds codes, rounds, or compares values.

Masks by gradients hold nothing of such a channel, and nothing else in them shows it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from dynamask_mlflow.masks.black_box import BlackBox
from dynamask_mlflow.masks.ordering import CONTESTANTS
from dynamask_mlflow.masks.result import Masks

_logger = logging.getLogger(__name__)

ROWS = 8
# Answers that differ by less of the largest answer count as equal.
EQUAL = 1e-4


def warn_of_unseen_channels(black_box: BlackBox, z: Tensor, exists: Tensor | None, masks: Masks) -> None:
    """Say which channels no gradient leads to although the answer moves with them.

    Costs four passes of a few instances where a channel has no gradient in any, and none elsewhere.

    Args:
        black_box: of the rows of z.
        z: (B, T, D) the first inputs; the channels of x come first.
        exists: (B, T, d) cells that count, or None.
        masks: of all inputs.
    """
    if not np.isin(masks.algorithm, CONTESTANTS).all():
        return
    silent = np.flatnonzero(~(masks.scores > 0).any((0, 1))).tolist()
    if not silent or not _moves(black_box, z, exists, silent):
        return
    found = [channel for channel in silent if _moves(black_box, z, exists, [channel])] or silent
    _logger.warning(
        "dynamask: the answer moves with channel %s of x, but no gradient leads there, as where a model embeds, rounds "
        "or compares values. The masks hold nothing of it. Explain this model by forward passes: method='forward'.",
        ", ".join(str(channel) for channel in found),
    )


def _moves(black_box: BlackBox, z: Tensor, exists: Tensor | None, channels: list[int]) -> bool:
    """Whether the answer moves when these channels have values of other instances, of other steps, or of one step."""
    with torch.no_grad():
        before = black_box(z)
        least = EQUAL * float(before.abs().max())
        there = torch.ones_like(z, dtype=torch.bool) if exists is None else exists
        sources: tuple[Callable[[Tensor], Tensor], ...] = (
            lambda v: v.roll(1, 0),
            lambda v: v.roll(v.shape[1] // 2, 1),
            lambda v: v[:, :1].expand_as(v),
        )
        for source in sources:
            other = z.clone()
            usable = (there & source(there))[:, :, channels]
            other[:, :, channels] = torch.where(usable, source(z)[:, :, channels], z[:, :, channels])
            if float((black_box(other) - before).abs().max()) > least:
                return True
    return False
