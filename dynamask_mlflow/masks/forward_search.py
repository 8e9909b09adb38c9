"""Scores of the cells by forward passes alone: segments removed and kept, from coarse to fine.

A segment is a run of steps of one channel or of a few neighbouring ones. Its share is the mean of what its removal
loses and of what it keeps alone, both as shares of the departure: the last and the first term of a Shapley value.
Removal alone misses evidence that stands in two places, keeping alone misses what works only together. Its score is
the size of its share, less where it speaks against the departure, and a part of what the two terms cancel.

Each instance has a tree of segments. It starts with the channels; in each round the open segments of the largest scores
are halved, until the passes are spent. The very best are also tried at their middle, since an event may lie across the
cut. Segments of all instances are asked in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dynamask_mlflow.masks.batching import LEAST
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.fitted import Tick
from dynamask_mlflow.masks.gradient_scores import AGAINST
from dynamask_mlflow.masks.operators import Fade
from dynamask_mlflow.masks.smoothing import smooth_in_time

# Segments that are halved in one round, and of how many of them the middle is tried as well.
HALVED, MIDDLES = 8, 2
# What kept and removed segments say against each other (evidence that works only together) counts by this share.
CANCELLED = 0.5
# The channels may take this share of the passes; more channels than that are tried in groups.
FIRST_ROUND = 0.25
# Width in steps over which the final scores are smoothed: segments end at arbitrary steps.
SMOOTHING = 1.0
# Rows of one call of the model. A server answers few large requests sooner than many small ones.
ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class Segment:
    """Steps begin .. end - 1 of channels first .. last - 1."""

    first: int
    last: int
    begin: int
    end: int

    @property
    def place(self) -> tuple[slice, slice]:
        return slice(self.begin, self.end), slice(self.first, self.last)

    @property
    def cells(self) -> int:
        return (self.last - self.first) * (self.end - self.begin)

    def halves(self) -> list[Segment]:
        """Channels are parted before steps; one cell has no halves."""
        if self.last - self.first > 1:
            cut = (self.first + self.last) // 2
            return [Segment(self.first, cut, self.begin, self.end), Segment(cut, self.last, self.begin, self.end)]
        if self.end - self.begin > 1:
            cut = (self.begin + self.end) // 2
            return [Segment(self.first, self.last, self.begin, cut), Segment(self.first, self.last, cut, self.end)]
        return []

    def middle(self) -> list[Segment]:
        """Half of the steps, across the cut; nothing below four steps."""
        length = self.end - self.begin
        if self.last - self.first > 1 or length < 4:
            return []
        begin = self.begin + length // 4
        return [Segment(self.first, self.last, begin, begin + length // 2)]


@dataclass
class _Tree:
    """The segments of one instance: those tried with their scores, those that may still be halved, passes left."""

    exists: NDArray[np.bool_]
    left: int
    against: float
    tried: list[tuple[Segment, float, float]] = field(default_factory=list)
    open: list[tuple[float, Segment]] = field(default_factory=list)

    def next_round(self) -> list[Segment]:
        """The parts of the best open segments, as many as passes are left for."""
        self.open.sort(key=lambda pair: -pair[0])
        parts: list[Segment] = []
        for rank, (_, segment) in enumerate(self.open[:HALVED]):
            parts += segment.halves() + (segment.middle() if rank < MIDDLES else [])
        del self.open[:HALVED]
        chosen = [part for part in parts if self.exists[part.place].any()][: self.left // 2]
        self.left -= 2 * len(chosen)
        return chosen

    def note(self, segment: Segment, kept: float, lost: float) -> None:
        share = (kept + lost) / 2
        cancelled = (abs(kept) + abs(lost)) / 2 - abs(share)
        size = (share if share >= 0 else -self.against * share) + CANCELLED * cancelled
        self.tried.append((segment, share, size))
        if segment.cells > 1:
            self.open.append((size, segment))

    def density(self) -> NDArray[np.float64]:
        """(T, d): sizes shared among the cells of a segment, averaged over the segments of a scale, and summed."""
        scales: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}
        for segment, _, size in self.tried:
            scale = round(math.log2(segment.cells))
            total, count = scales.setdefault(scale, (np.zeros(self.exists.shape), np.zeros(self.exists.shape)))
            total[segment.place] += size / max(1, int(self.exists[segment.place].sum()))
            count[segment.place] += 1
        summed = np.zeros(self.exists.shape)
        for total, count in scales.values():
            summed += total / np.maximum(count, 1)
        return summed

    def finest(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """(T, d) each: the share of the smallest segment around a cell, for each of its cells; whether it moved."""
        shares, moved = np.zeros(self.exists.shape), np.zeros(self.exists.shape, dtype=np.bool_)
        for segment, share, size in sorted(self.tried, key=lambda each: -each[0].cells):
            shares[segment.place] = share / max(1, int(self.exists[segment.place].sum()))
            moved[segment.place] = size > 0
        return shares * self.exists, moved

    def untouched(self) -> NDArray[np.bool_]:
        """(T, d): cells of which no segment changed anything, removed or kept; those that do not exist among them."""
        moved = np.zeros(self.exists.shape, dtype=np.bool_)
        for segment, _, size in self.tried:
            moved[segment.place] |= size > 0
        return ~(moved & self.exists)


@dataclass(frozen=True)
class SegmentsFound:
    """What the search knows of each cell, (B, T, d) each, in the direction of the departure.

    Attributes:
        scores: the ordering, >= 0.
        shares: of the departure, by the smallest segment around a cell; they need not sum to 1.
        untouched: whether no segment around a cell changed anything.
        passes: (B,) forward passes spent.
    """

    scores: Tensor
    shares: Tensor
    untouched: Tensor
    passes: Tensor


def search_segments(departure: Departure, budget: int, tick: Tick, against: float = AGAINST) -> SegmentsFound:
    """Spend at most `budget` forward passes an instance; none on instances that have nothing to explain.

    Args:
        departure: under one baseline, the strongest of each instance.
        against: what segments against the departure count, beside those for it.
    """
    x = departure.batch.x
    exists = (departure.batch.weights() > 0).cpu().numpy()
    idle = departure.negligible.cpu().numpy()
    trees = [_Tree(there, 0 if nothing else budget, against) for there, nothing in zip(exists, idle, strict=True)]
    parts = [_first_segments(tree) for tree in trees]
    while any(parts):
        _try(departure, trees, parts)
        parts = [tree.next_round() for tree in trees]
        tick()

    def stacked(values: Sequence[NDArray[Any]]) -> Tensor:
        return torch.as_tensor(np.stack(values), device=x.device)

    density = stacked([tree.density() for tree in trees]).to(x.dtype)
    finest = [tree.finest() for tree in trees]
    shares, moved = stacked([share for share, _ in finest]).to(x.dtype), stacked([moved for _, moved in finest])
    smooth = smooth_in_time(density, SMOOTHING, departure.batch.exists, ends=True)
    return SegmentsFound(
        # A cell that is known to change nothing by itself is not raised by its neighbours.
        scores=torch.where(moved, smooth, torch.minimum(density, smooth)),
        shares=shares,
        untouched=stacked([tree.untouched() for tree in trees]),
        passes=torch.tensor([2 * len(tree.tried) for tree in trees], device=x.device),
    )


def _first_segments(tree: _Tree) -> list[Segment]:
    """The channels, in groups where they are many; a single one is halved, since the whole is known."""
    steps, channels = tree.exists.shape
    if tree.left < 4:
        return []
    most = max(2, int(FIRST_ROUND * tree.left / 2))
    width = -(-channels // most)
    groups = [Segment(first, min(first + width, channels), 0, steps) for first in range(0, channels, width)]
    tree.open = [(1.0, group) for group in groups] if len(groups) == 1 else []
    if tree.open:
        return tree.next_round()
    chosen = [group for group in groups if tree.exists[group.place].any()]
    tree.left -= 2 * len(chosen)
    return chosen


def _try(departure: Departure, trees: list[_Tree], parts: list[list[Segment]]) -> None:
    """Ask for all segments of all instances, and note their scores."""
    pairs = [(row, segment) for row, some in enumerate(parts) for segment in some]
    rows = np.array([row for row, _ in pairs])
    masks = np.zeros((len(pairs), *trees[0].exists.shape), dtype=np.float32)
    for mask, (_, segment) in zip(masks, pairs, strict=True):
        mask[segment.place] = 1
    masks *= np.stack([tree.exists for tree in trees])[rows]
    reach = departure.reach.cpu().numpy()[rows]
    kept = asked(departure, rows, masks) - departure.baseline_scores[0].cpu().numpy()[rows]
    lost = departure.score.cpu().numpy()[rows] - asked(departure, rows, 1 - masks)
    kept, lost = (np.clip(each / reach, -1, 1) for each in (kept, lost))
    for (row, segment), keeps, loses in zip(pairs, kept, lost, strict=True):
        trees[row].note(segment, float(keeps), float(loses))


def asked(departure: Departure, rows: NDArray[Any], masks: NDArray[np.float32]) -> NDArray[np.float64]:
    """(R,): the score of instance `rows[r]` when masks[r] (T, d) keeps, in calls of many rows.

    A call is filled up to a multiple of LEAST rows, so that each row keeps the same bits whatever the others are.
    """
    device = departure.batch.x.device
    if not all(isinstance(perturb, Fade) for perturb in departure.perturbations):
        return _asked_in_turn(departure, rows, masks)
    answers = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        fill = np.minimum(np.arange(-(-len(part) // LEAST) * LEAST), len(part) - 1)
        index = torch.as_tensor(part[fill], device=device)
        mask = torch.as_tensor(masks[start + fill], device=device)
        answers.append(departure.rows(index).score_under(mask)[: len(part)].cpu().numpy())
    return np.concatenate(answers).astype(np.float64)


def _asked_in_turn(departure: Departure, rows: NDArray[Any], masks: NDArray[np.float32]) -> NDArray[np.float64]:
    """For operators that are no fades, which know their own batch alone: the first mask of each instance, and so on."""
    size = len(departure.batch.x)
    turn = np.array([int((rows[:place] == row).sum()) for place, row in enumerate(rows)])
    answers = np.zeros(len(rows))
    for now in range(int(turn.max()) + 1):
        places = np.flatnonzero(turn == now)
        mask = np.zeros((size, *masks.shape[1:]), dtype=np.float32)
        mask[rows[places]] = masks[places]
        scores = departure.score_under(torch.as_tensor(mask, device=departure.batch.x.device))
        answers[places] = scores.cpu().numpy()[rows[places]]
    return answers
