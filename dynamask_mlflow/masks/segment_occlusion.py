"""Scores of the cells by removing and keeping whole segments of a channel, from coarse to fine.

A recurrent network that has made up its mind hardly feels a single cell, and its gradients do not tell where it did
so; but it loses the answer with a whole segment. The channels with the largest gradients, and the one that is missed
most among the others, are tried as a whole. The best segments are halved (of the very best also the middle is tried),
again and again, down to a few steps; the last ones are also tried a step earlier and a step later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.smoothing import smooth_in_time


@dataclass(frozen=True)
class SegmentSearch:
    """How much is tried.

    Attributes:
        channels: how many channels are tried as a whole.
        keep: how many segments are halved, the first time, the second time, and so on; the last number stays.
        middles: of how many of the best segments the middle is tried beside the halves.
        shifted: how many of the last segments are tried a step earlier and later.
        finest: length in steps at which halving stops.
        smoothing: width over which the final scores are smoothed: segments end at arbitrary steps.
    """

    channels: int = 6
    keep: tuple[int, ...] = (4, 4, 3)
    middles: int = 2
    shifted: int = 2
    finest: float = 3.0
    smoothing: float = 1.0


USUAL_SEARCH = SegmentSearch()
FAST_SEARCH = SegmentSearch(keep=(3, 2))


@dataclass(frozen=True)
class _Segment:
    """One segment of each instance: its channel (B,) and its first step (B,)."""

    channel: Tensor
    start: Tensor


@dataclass(frozen=True)
class _Tried:
    """Scores of K segments and the attributions in them (B, K); scores shared among cells; how often a cell was in."""

    scores: Tensor
    expected: Tensor
    shared: Tensor
    number: Tensor


def segment_scores(departure: Departure, attributions: Tensor, magnitude: Tensor, search: SegmentSearch) -> Tensor:
    """(B, T, d): the score of each cell, summed over the scales at which it was tried.

    The score of a segment is the mean of what its removal loses and of what it keeps alone, both as shares of the
    departure under the first baseline: the last and the first term of a Shapley value. It is shared equally among
    the cells of the segment.

    Args:
        attributions: (B, T, d) in the direction of the departure: a channel may speak for it here and against it
            there, and come to nothing as a whole.
        magnitude: (B, T, d) mean |gradient|, which ranks the channels.
    """
    x = departure.batch.x
    exists = departure.batch.exists
    present = departure.batch.weights()
    rows = torch.arange(len(x), device=x.device)
    time = torch.arange(x.shape[1], device=x.device)
    hoped = attributions.clamp(min=0)

    def cells(segment: _Segment, length: float) -> Tensor:
        inside = (time >= segment.start[:, None]) & (time < segment.start[:, None] + length)
        mask = torch.zeros_like(x)
        mask[rows, :, segment.channel] = inside.to(x.dtype)
        return mask * present

    def try_all(segments: list[_Segment], length: float) -> _Tried:
        masks = [cells(segment, length) for segment in segments]
        kept, lost = departure.kept_and_lost(masks, masks)
        scores = (lost + kept) / 2
        expected = [(hoped * mask).sum((1, 2)) for mask in masks]
        shared, number = torch.zeros_like(x), torch.zeros_like(x)
        for mask, value in zip(masks, scores, strict=True):
            shared += mask * (value / mask.sum((1, 2)).clamp(min=1))[:, None, None]
            number += mask
        return _Tried(scores.T, torch.stack(expected, 1), shared, number)

    def lost_without(groups: list[Tensor]) -> Tensor:
        return departure.lost([channels[:, None, :] * present for channels in groups])

    tried = _channels(magnitude.sum(1), lost_without, search.channels)
    segments = [_Segment(tried[:, k], torch.zeros_like(departure.score)) for k in range(tried.shape[1])]
    length, total, cuts = float(x.shape[1]), torch.zeros_like(x), 0
    while length > search.finest:
        found = try_all(segments, length)
        total += found.shared / found.number.clamp(min=1)
        best = _best(found, search.keep[min(cuts, len(search.keep) - 1)])
        segments = _halves(segments, best, length / 2, rows, search.middles)
        length, cuts = max(length / 2, search.finest), cuts + 1
    found = try_all(segments, length)
    beside = try_all(_beside(segments, found.scores, x.shape[1] - length, rows, search.shifted), length)
    total += (found.shared + beside.shared) / (found.number + beside.number).clamp(min=1)
    return smooth_in_time(total, search.smoothing, exists, ends=True)


def _channels(magnitude: Tensor, lost_without: Callable[[list[Tensor]], Tensor], most: int) -> Tensor:
    """(B, most): the channels of the largest gradients, and the one among the others that is missed most.

    The last is found by halves: of two groups of channels the one without which more is lost.
    """
    ranked = magnitude.argsort(dim=1, descending=True, stable=True)
    if ranked.shape[1] <= most:
        return ranked
    first, rest = ranked[:, : most - 1], ranked[:, most - 1 :]
    while rest.shape[1] > 1:
        # Neighbours in rank go to different halves; where their number is odd, the last one to both.
        halves = rest[:, 0::2], torch.cat([rest[:, 1::2], rest[:, -1:]], 1)[:, : (rest.shape[1] + 1) // 2]
        losses = lost_without([torch.zeros_like(magnitude).scatter(1, half, 1.0) for half in halves])
        rest = torch.where((losses[0] >= losses[1])[:, None], *halves)
    return torch.cat([first, rest], 1)


def _best(found: _Tried, keep: int) -> Tensor:
    """(B, keep): the segments of the highest scores, and of the others the one of most attribution."""
    highest = found.scores.argsort(dim=1, descending=True, stable=True)[:, : keep - 1]
    others = found.expected.scatter(1, highest, float("-inf"))
    return torch.cat([highest, others.argmax(1, keepdim=True)], 1)[:, : found.scores.shape[1]]


def _halves(segments: list[_Segment], best: Tensor, half: float, rows: Tensor, middles: int) -> list[_Segment]:
    """The left and right half of the best segments of each instance, and of the very best the middle."""
    return [
        _Segment(channel, torch.floor(start + shift))
        for k, (channel, start) in enumerate(_picked(segments, best, rows))
        for shift in ((0.0, half / 2, half) if k < middles else (0.0, half))
    ]


def _beside(segments: list[_Segment], scores: Tensor, last: float, rows: Tensor, shifted: int) -> list[_Segment]:
    """The best segments, one step earlier and one later."""
    best = scores.argsort(dim=1, descending=True, stable=True)[:, :shifted]
    return [
        _Segment(channel, (start + shift).clamp(min=0, max=max(0.0, last)))
        for channel, start in _picked(segments, best, rows)
        for shift in (-1.0, 1.0)
    ]


def _picked(segments: list[_Segment], best: Tensor, rows: Tensor) -> list[tuple[Tensor, Tensor]]:
    channels, starts = (torch.stack([getattr(s, name) for s in segments], 1) for name in ("channel", "start"))
    return [(channels[rows, best[:, k]], starts[rows, best[:, k]]) for k in range(best.shape[1])]
