"""Worth of cells by removing and keeping whole stretches of a channel, from coarse to fine.

A recurrent net that has made up its mind hardly feels a single cell: its gradients say next to nothing about where
it did so. It does feel the loss of a whole stretch. So the channels that gradients feel most, and the one that is
missed most among the others, are tried as a whole. The best stretches are cut into halves (left and right, of the very
best also the middle), and again, down to a few steps; the last ones are also tried a step earlier and a step later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.game import Game

MOST_CHANNELS = 6
_MIDDLES = 2
_SHIFTED = 2
_STEP = 7001


@dataclass(frozen=True)
class _Stretch:
    """A stretch of one channel for each instance: channel (B,), first step (B,)."""

    channel: Tensor
    start: Tensor


@dataclass(frozen=True)
class _Looks:
    """What K stretches were found to be worth, and promised (B, K), shared among their cells; how often each was in."""

    worths: Tensor
    hopes: Tensor
    shared: Tensor
    number: Tensor


def zoom_worth(
    game: Game,
    felt: Tensor,
    hope: Tensor,
    keep: Sequence[int],
    finest: float,
    removal: int,
    insertion: int | None,
    seen: Tensor,
) -> Tensor:
    """(B, T, d): worth a cell, summed over the scales at which it was looked at.

    The worth of a stretch S is the mean of what its removal costs, v(all) - v(all without S), and of what it brings
    alone, v(S) - v(nothing), with v the class margin: the last and the first term of a Shapley value. It is shared
    equally among the cells of S. No stretch brings more than the whole has: what is alone may well look like more.

    Args:
        felt: (B, d) how much gradients feel a channel; MOST_CHANNELS are tried.
        hope: (B, T, d) what gradients promise of each cell. A channel may speak for the answer here and against it
            there, and come to nothing as a whole.
        keep: how many stretches are cut up further, the first time, the second time, and so on: the worthiest, and
            last the one of most hope beside them.
        finest: length in steps at which to stop.
        removal, insertion: operators of the two games; None leaves the second out.
        seen: (B, T, d) 1 where a cell exists.
    """
    x = game.batch.x
    rows = torch.arange(len(x), device=x.device)
    time = torch.arange(x.shape[1], device=x.device)
    whole = game.whole()
    nothing = None if insertion is None else game.nothing(insertion)

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

    def loss_without(channels: Tensor) -> Tensor:
        return whole - game.standing(1 - channels[:, None, :] * seen, removal, _STEP)

    tried = _channels(felt, loss_without)
    stretches = [_Stretch(tried[:, k], torch.zeros_like(whole)) for k in range(tried.shape[1])]
    length, total = float(x.shape[1]), torch.zeros_like(x)

    def look_at(stretches: list[_Stretch]) -> _Looks:
        worths, hopes, shared, number = [], [], torch.zeros_like(x), torch.zeros_like(x)
        for stretch in stretches:
            mask = cells(stretch, length)
            value = worth(mask)
            worths.append(value)
            hopes.append((hope * mask).sum((1, 2)))
            shared += mask * (value / mask.sum((1, 2)).clamp(min=1))[:, None, None]
            number += mask
        return _Looks(torch.stack(worths, 1), torch.stack(hopes, 1), shared, number)

    cuts = 0
    while length > finest:
        looks = look_at(stretches)
        total += looks.shared / looks.number.clamp(min=1)
        best = _best(looks.worths, looks.hopes, keep[min(cuts, len(keep) - 1)])
        stretches = _halves(stretches, best, length / 2, rows)
        length, cuts = max(length / 2, finest), cuts + 1
    looks = look_at(stretches)
    beside = look_at(_beside(stretches, looks.worths, x.shape[1] - length, rows))
    return total + (looks.shared + beside.shared) / (looks.number + beside.number).clamp(min=1)


def _channels(felt: Tensor, loss_without: Callable[[Tensor], Tensor]) -> Tensor:
    """(B, MOST_CHANNELS): the channels that gradients feel most, and the one among the others that is missed most.

    The last is found by halves: of two groups of channels the one without which the answer loses more.
    """
    ranked = felt.argsort(dim=1, descending=True, stable=True)
    if ranked.shape[1] <= MOST_CHANNELS:
        return ranked
    first, rest = ranked[:, : MOST_CHANNELS - 1], ranked[:, MOST_CHANNELS - 1 :]
    while rest.shape[1] > 1:
        # Neighbours in rank go to different halves; where their number is odd, the last one to both.
        halves = rest[:, 0::2], torch.cat([rest[:, 1::2], rest[:, -1:]], 1)[:, : (rest.shape[1] + 1) // 2]
        losses = [loss_without(torch.zeros_like(felt).scatter(1, half, 1.0)) for half in halves]
        rest = torch.where((losses[0] >= losses[1])[:, None], *halves)
    return torch.cat([first, rest], 1)


def number_of_looks(steps: int, channels: int, keep: Sequence[int], finest: float, games: int) -> int:
    """How many forward passes an instance takes."""
    halvings, rest = 0, max(1, channels - MOST_CHANNELS + 1)
    while rest > 1:
        halvings, rest = halvings + 1, (rest + 1) // 2
    candidates = min(channels, MOST_CHANNELS)
    trials, cuts, length = candidates, 0, float(steps)
    while length > finest:
        cut = min(keep[min(cuts, len(keep) - 1)], candidates)
        candidates = 2 * cut + min(_MIDDLES, cut)
        trials, cuts, length = trials + candidates, cuts + 1, max(length / 2, finest)
    return 2 * halvings + games * (trials + 2 * min(_SHIFTED, candidates))


def _best(worths: Tensor, hopes: Tensor, keep: int) -> Tensor:
    """(B, keep): the stretches of most worth, and of the others the one of most hope."""
    worthiest = worths.argsort(dim=1, descending=True, stable=True)[:, : keep - 1]
    others = hopes.scatter(1, worthiest, float("-inf"))
    return torch.cat([worthiest, others.argmax(1, keepdim=True)], 1)[:, : worths.shape[1]]


def _halves(stretches: list[_Stretch], best: Tensor, half: float, rows: Tensor) -> list[_Stretch]:
    """The left and right half of the best stretches of each instance, and of the very best the middle."""
    return [
        _Stretch(channel, torch.floor(start + shift))
        for k, (channel, start) in enumerate(_picked(stretches, best, rows))
        for shift in ((0.0, half / 2, half) if k < _MIDDLES else (0.0, half))
    ]


def _beside(stretches: list[_Stretch], worths: Tensor, last: float, rows: Tensor) -> list[_Stretch]:
    """The best stretches, one step earlier and one later: halves rarely end where the story does."""
    best = worths.argsort(dim=1, descending=True, stable=True)[:, :_SHIFTED]
    return [
        _Stretch(channel, (start + shift).clamp(min=0, max=max(0.0, last)))
        for channel, start in _picked(stretches, best, rows)
        for shift in (-1.0, 1.0)
    ]


def _picked(stretches: list[_Stretch], best: Tensor, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    channels, starts = (torch.stack([getattr(s, name) for s in stretches], 1) for name in ("channel", "start"))
    return [(channels[rows, best[:, k]], starts[rows, best[:, k]]) for k in range(best.shape[1])]
