"""Worth of cells by removing and keeping whole stretches of a channel, from coarse to fine.

A recurrent net that has made up its mind hardly feels a single cell: its gradients say next to nothing about where
it did so. It does feel the loss of a whole stretch. So the channels that gradients feel at all are tried as a whole,
the best stretches are cut into halves (left and right, of the very best also the middle), and again, down to a few
steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.game import Game

MOST_CHANNELS = 6
_MIDDLES = 2
_STEP = 7001


@dataclass(frozen=True)
class _Stretch:
    """A stretch of one channel for each instance: channel (B,), first step (B,)."""

    channel: Tensor
    start: Tensor


def zoom_worth(
    game: Game, felt: Tensor, hope: Tensor, keep: int, finest: float, removal: int, insertion: int | None, seen: Tensor
) -> Tensor:
    """(B, T, d): worth a cell, summed over the scales at which it was looked at.

    The worth of a stretch S is the mean of what its removal costs, v(all) - v(all without S), and of what it brings
    alone, v(S) - v(nothing), with v the class margin: the last and the first term of a Shapley value. It is shared
    equally among the cells of S. No stretch brings more than the whole has: what is alone may well look like more.

    Args:
        felt: (B, d) how much gradients feel a channel; the MOST_CHANNELS best are tried.
        hope: (B, T, d) what gradients promise of each cell. A channel may speak for the answer here and against it
            there, and come to nothing as a whole.
        keep: how many stretches are cut up further: the worthiest, and last the one of most hope beside them.
        finest: length in steps at which to stop.
        removal, insertion: operators of the two games; None leaves the second out.
        seen: (B, T, d) 1 where a cell exists.
    """
    x = game.batch.x
    rows = torch.arange(len(x), device=x.device)
    time = torch.arange(x.shape[1], device=x.device)
    whole = game.standing(torch.ones_like(x), removal, _STEP)
    nothing = None if insertion is None else game.standing(torch.zeros_like(x), insertion, _STEP)

    def cells(stretch: _Stretch, length: float) -> Tensor:
        inside = (time >= stretch.start[:, None]) & (time < stretch.start[:, None] + length)
        mask = torch.zeros_like(x)
        mask[rows, :, stretch.channel] = inside.to(x.dtype)
        return mask * seen

    def worth(mask: Tensor) -> Tensor:
        lost = whole - game.standing(1 - mask, removal, _STEP)
        if insertion is None or nothing is None:
            return lost
        alone = torch.minimum(game.standing(mask, insertion, _STEP), torch.maximum(whole, nothing))
        return (lost + alone - nothing) / 2

    tried = felt.argsort(dim=1, descending=True, stable=True)[:, :MOST_CHANNELS]
    start = torch.zeros_like(whole)
    stretches = [_Stretch(tried[:, k], start) for k in range(tried.shape[1])]
    length, total = float(x.shape[1]), torch.zeros_like(x)
    while True:
        worths, hopes, shared, looks = [], [], torch.zeros_like(x), torch.zeros_like(x)
        for stretch in stretches:
            mask = cells(stretch, length)
            value = worth(mask)
            worths.append(value)
            hopes.append((hope * mask).sum((1, 2)))
            shared += mask * (value / mask.sum((1, 2)).clamp(min=1))[:, None, None]
            looks += mask
        total += shared / looks.clamp(min=1)
        if length <= finest:
            return total
        best = _best(torch.stack(worths, 1), torch.stack(hopes, 1), keep)
        stretches = _halves(stretches, best, length / 2, rows)
        length = max(length / 2, finest)


def number_of_trials(steps: int, channels: int, keep: int, finest: float) -> int:
    """How many stretches of each instance are tried."""
    trials, length, candidates = min(channels, MOST_CHANNELS), float(steps), min(channels, MOST_CHANNELS)
    while length > finest:
        cut = min(keep, candidates)
        candidates = 2 * cut + min(_MIDDLES, cut)
        trials, length = trials + candidates, max(length / 2, finest)
    return trials


def _best(worths: Tensor, hopes: Tensor, keep: int) -> Tensor:
    """(B, keep): the stretches of most worth, and of the others the one of most hope."""
    worthiest = worths.argsort(dim=1, descending=True, stable=True)[:, : keep - 1]
    others = hopes.scatter(1, worthiest, float("-inf"))
    return torch.cat([worthiest, others.argmax(1, keepdim=True)], 1)[:, : worths.shape[1]]


def _halves(stretches: list[_Stretch], best: Tensor, half: float, rows: Tensor) -> list[_Stretch]:
    """The left and right half of the best stretches of each instance, and of the very best the middle."""
    channels, starts = (torch.stack([getattr(s, name) for s in stretches], 1) for name in ("channel", "start"))
    return [
        _Stretch(channels[rows, best[:, k]], torch.floor(starts[rows, best[:, k]] + shift))
        for k in range(best.shape[1])
        for shift in ((0.0, half / 2, half) if k < _MIDDLES else (0.0, half))
    ]
