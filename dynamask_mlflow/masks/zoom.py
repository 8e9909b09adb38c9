"""Worth of cells by removing and keeping whole stretches of a channel, from coarse to fine.

A recurrent net that has made up its mind hardly feels a single cell: its gradients say next to nothing about where
it did so. It does feel the loss of a whole stretch. So the channels that gradients feel at all are tried as a whole,
the best stretches are cut into halves (left, middle, right), and again, down to a few steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.game import Game

MOST_CHANNELS = 10
_STEP = 7001


@dataclass(frozen=True)
class _Stretch:
    """A stretch of one channel for each instance: channel (B,), first step (B,)."""

    channel: Tensor
    start: Tensor


def zoom_worth(
    game: Game, first: Tensor, keep: int, finest: float, removal: int, insertion: int | None, seen: Tensor
) -> Tensor:
    """(B, T, d): worth a cell, summed over the scales at which it was looked at.

    The worth of a stretch S is the mean of what its removal costs, v(all) - v(all without S), and of what it brings
    alone, v(S) - v(nothing), with v the class margin: the last and the first term of a Shapley value. It is shared
    equally among the cells of S.

    Args:
        first: (B, d) how promising a channel is; the MOST_CHANNELS best are tried.
        keep: how many stretches are cut up further.
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
        return (lost + game.standing(mask, insertion, _STEP) - nothing) / 2

    tried = first.argsort(dim=1, descending=True, stable=True)[:, :MOST_CHANNELS]
    start = torch.zeros_like(whole)
    stretches = [_Stretch(tried[:, k], start) for k in range(tried.shape[1])]
    length, total = float(x.shape[1]), torch.zeros_like(x)
    while True:
        worths, shared, looks = [], torch.zeros_like(x), torch.zeros_like(x)
        for stretch in stretches:
            mask = cells(stretch, length)
            value = worth(mask)
            worths.append(value)
            shared += mask * (value / mask.sum((1, 2)).clamp(min=1))[:, None, None]
            looks += mask
        total += shared / looks.clamp(min=1)
        if length <= finest:
            return total
        stretches = _halves(stretches, torch.stack(worths, 1), keep, length / 2, rows)
        length = max(length / 2, finest)


def number_of_trials(steps: int, channels: int, keep: int, finest: float) -> int:
    """How many stretches of each instance are tried."""
    trials, length, candidates = min(channels, MOST_CHANNELS), float(steps), min(channels, MOST_CHANNELS)
    while length > finest:
        candidates = 3 * min(keep, candidates)
        trials, length = trials + candidates, max(length / 2, finest)
    return trials


def _halves(stretches: list[_Stretch], worths: Tensor, keep: int, half: float, rows: Tensor) -> list[_Stretch]:
    """The left, middle and right half of the best stretches of each instance."""
    best = worths.argsort(dim=1, descending=True, stable=True)[:, :keep]
    channels, starts = (torch.stack([getattr(s, name) for s in stretches], 1) for name in ("channel", "start"))
    return [
        _Stretch(channels[rows, best[:, k]], torch.floor(starts[rows, best[:, k]] + shift))
        for k in range(best.shape[1])
        for shift in (0.0, half / 2, half)
    ]
