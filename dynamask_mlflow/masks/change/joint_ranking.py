"""One ranking of the new cells from two explanations: against the earlier state, and of the later answer by itself.

A cell brought the change where it differs from what stood before and the later answer relies on it. Cells are ranked by
the geometric mean of both coefficients; the coefficients of the first are handed out anew along that ranking.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamask_mlflow.masks.coefficients import best_cut
from dynamask_mlflow.masks.ranking import Order, handed_out
from dynamask_mlflow.masks.result import Masks

# What the later answer's coefficient counts. Chosen with the experiment on changes, seeds 0 and 1.
_LATER = 0.5
_FLOOR = 1e-6


def joint_ranking(masks: Masks, later: Masks, new: NDArray[np.bool_]) -> Masks:
    """Masks against the earlier state, reordered with those of the later answer where both go the same way.

    Where the answer rose since then but lies below its own reference answer, the later explanation tells what lowers
    it, and has no part in this.

    Args:
        new: (N, T, d) the cells that may be in the mask.
    """
    exists, scores = torch.from_numpy(new), torch.from_numpy(masks.scores)
    agree = torch.from_numpy((masks.direction != 0) & (later.direction == masks.direction))
    ours, theirs = torch.from_numpy(masks.masks), torch.from_numpy(later.masks)
    joint = (1 - _LATER) * (ours + _FLOOR).log() + _LATER * (theirs + _FLOOR).log()
    # Cells that did not move, or that the model does not read, stay last.
    order = Order.of(torch.where(scores > 0, joint, torch.full_like(joint, -torch.inf)), exists)
    chance = handed_out(ours, order) * exists
    if masks.config.get("area") == "auto":
        cells = best_cut(chance)
    else:  # as many as were asked for
        cells = handed_out(torch.from_numpy(masks.binary).to(chance.dtype), order) * exists
    return replace(
        masks,
        masks=_where(agree, chance, masks.masks),
        scores=_where(agree, torch.where(scores > 0, 1 - order.entry(), torch.zeros_like(scores)), masks.scores),
        binary=_where(agree, cells, masks.binary) > 0,
    )


def _where(rows: Tensor, yes: Tensor, no: NDArray[np.float32] | NDArray[np.bool_]) -> NDArray[np.float32]:
    return torch.where(rows[:, None, None], yes, torch.from_numpy(no).to(yes.dtype)).numpy().astype(np.float32)
