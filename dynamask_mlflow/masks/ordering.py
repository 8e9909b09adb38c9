"""One ordering of the cells for one number of the answer: gradients, segments, a fit, and the contest between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dynamask_mlflow.masks.contest import challenger_weight, combined_scores, contest_shares, hold
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.fitted import Tick
from dynamask_mlflow.masks.nested_contestant import nested_scores
from dynamask_mlflow.masks.path_attribution import TOLERANCE, PathAttributions
from dynamask_mlflow.masks.ranking import Order
from dynamask_mlflow.masks.segment_occlusion import FAST_SEARCH, USUAL_SEARCH, segment_scores

CONTESTANTS = ("gradients", "segments", "nested fit")
# The nested fit, the most expensive contestant, is tried where the others hold less than this.
FIT_BELOW = 0.55


@dataclass(frozen=True)
class Ordering:
    """An ordering of the cells of each instance.

    Attributes:
        order: the cells' places.
        winner: (B,) which of CONTESTANTS counts most in it.
        hold: (B,) how much of the departure the best contestant holds, see `contest.hold`.
        shares: (2, K, B) what its first cells keep and lose under the strongest baseline, see `contest_shares`.
    """

    order: Order
    winner: Tensor
    hold: Tensor
    shares: Tensor

    def rows(self, index: Tensor) -> Ordering:
        return Ordering(self.order.rows(index), self.winner[index], self.hold[index], self.shares[:, :, index])

    def with_rows(self, index: Tensor, other: Ordering) -> Ordering:
        """This ordering, with some of its instances taken from another."""
        return Ordering(
            self.order.with_rows(index, other.order),
            self.winner.index_copy(0, index, other.winner),
            self.hold.index_copy(0, index, other.hold),
            self.shares.index_copy(2, index, other.shares),
        )


Propose = Callable[[list[Departure], PathAttributions], Tensor]
"""Makes a contestant's scores (B, T, d)."""


def order_cells(departures: list[Departure], paths: PathAttributions, *, fast: bool, tick: Tick) -> Ordering:
    """Order the cells of each instance.

    Gradients go first. Where their integrals miss the departure, the network jumps and they see little of it: there
    segments challenge them, and where both hold little, a nested fit does.

    Args:
        departures: under each baseline alone, the strongest first.
        paths: attributions in the direction of the departure.
    """
    exists = departures[0].batch.exists
    order = Order.of(paths.scores(exists), exists)
    winner = torch.zeros_like(departures[0].score, dtype=torch.long)
    shares = contest_shares(departures[0], order)
    ordering = Ordering(order, winner, hold(shares), shares)

    def by_segments(those: list[Departure], part: PathAttributions) -> Tensor:
        search = FAST_SEARCH if fast else USUAL_SEARCH
        return segment_scores(those[0], part.attributions, part.magnitude, search)

    def by_fit(those: list[Departure], part: PathAttributions) -> Tensor:
        return nested_scores(those[:2], part.scores(those[0].batch.exists), tick)

    missed = (paths.remainder > TOLERANCE) & ~departures[0].negligible & paths.magnitude.flatten(1).ne(0).any(1)
    ordering = _challenge(ordering, departures, paths, missed, 1, by_segments)
    if fast:
        return ordering
    return _challenge(ordering, departures, paths, missed & (ordering.hold < FIT_BELOW), 2, by_fit)


def _challenge(
    ordering: Ordering, departures: list[Departure], paths: PathAttributions, which: Tensor, who: int, propose: Propose
) -> Ordering:
    """The ordering after a contestant had its turn on some of the instances, which (B,)."""
    rows = departures[0].rows_where(which)
    if rows is None:
        return _after_contest(ordering, departures[0], propose(departures, paths), who)
    if not len(rows):
        return ordering
    those = [departure.rows(rows) for departure in departures]
    part = _after_contest(ordering.rows(rows), those[0], propose(those, paths.rows(rows)), who)
    return ordering.with_rows(rows, part)


def _after_contest(ordering: Ordering, departure: Departure, scores: Tensor, who: int) -> Ordering:
    exists = departure.batch.exists
    challenger = Order.of(scores, exists)
    held = hold(contest_shares(departure, challenger))
    weight = challenger_weight(ordering.hold, held)
    combined = Order.of(combined_scores(ordering.order, challenger, weight), exists)
    winner = torch.where(weight > 0.5, torch.full_like(ordering.winner, who), ordering.winner)
    return Ordering(combined, winner, torch.maximum(ordering.hold, held), contest_shares(departure, combined))
