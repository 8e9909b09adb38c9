"""Segments removed and kept as a whole find what gradients do not feel."""

import pytest
import torch
from departures import departure_of
from torch import Tensor
from white_boxes import CHANNELS, SEGMENT, STEPS, cells, high_segment, latched, two_classes

from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.segment_occlusion import (
    FAST_SEARCH,
    USUAL_SEARCH,
    SegmentSearch,
    segment_scores,
)


def alone(model: object, x: Tensor, exists: Tensor | None = None) -> Departure:
    """The departure under the one baseline that takes the answer furthest."""
    return departure_of(model, x, exists=exists).by_strength()[0]


def scores_of(
    model: object,
    x: Tensor,
    hoped: Tensor | None = None,
    felt: Tensor | None = None,
    search: SegmentSearch = USUAL_SEARCH,
) -> Tensor:
    hoped = torch.zeros_like(x) if hoped is None else hoped
    felt = torch.ones_like(x) if felt is None else felt
    return segment_scores(alone(model, x), hoped, felt, search)


def test_segments_find_what_gradients_do_not_feel() -> None:
    x = high_segment()
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(latched(leaf)[:, 1].sum(), leaf)
    assert gradient.abs().max() < 1e-6
    scores = scores_of(latched, x)
    assert (scores[:, SEGMENT, 2].mean(1) > 5 * scores[:, :, [0, 1, 3]].abs().amax((1, 2))).all()
    assert (scores[:, SEGMENT, 2].amin(1) > scores[:, :8, 2].amax(1)).all()


def forward_passes(steps: int, channels: int, search: SegmentSearch) -> int:
    """How many forward passes an instance takes, counted from the steps of the search."""
    halvings, rest = 0, max(1, channels - search.channels + 1)
    while rest > 1:
        halvings, rest = halvings + 1, (rest + 1) // 2
    candidates = min(channels, search.channels)
    trials, cuts, length = candidates, 0, float(steps)
    while length > search.finest:
        cut = min(search.keep[min(cuts, len(search.keep) - 1)], candidates)
        candidates = 2 * cut + min(search.middles, cut)
        trials, cuts, length = trials + candidates, cuts + 1, max(length / 2, search.finest)
    return 2 * halvings + 2 * (trials + 2 * min(search.shifted, candidates))


@pytest.mark.parametrize("search", [USUAL_SEARCH, FAST_SEARCH])
@pytest.mark.parametrize("channels", [2, CHANNELS, 12, 31])
def test_the_search_takes_as_many_forward_passes_as_it_says(channels: int, search: SegmentSearch) -> None:
    rows = 0

    def counted(x: Tensor) -> Tensor:
        nonlocal rows
        rows += len(x)
        return two_classes(x[:, SEGMENT, 0].sum(1))

    x = torch.cat([high_segment(16), torch.zeros(16, STEPS, 27)], 2)[:, :, :channels]
    departure = alone(counted, x)
    rows = 0
    segment_scores(departure, torch.zeros_like(x), torch.ones_like(x), search)
    assert rows == 16 * forward_passes(STEPS, channels, search)


def test_a_channel_that_gradients_do_not_feel_is_found_among_many() -> None:
    channels = 4 * USUAL_SEARCH.channels
    x = torch.cat([high_segment(), torch.zeros(6, STEPS, channels - CHANNELS)], 2)
    felt = torch.arange(channels).flip(0).float().expand_as(x).clone()
    felt[:, :, 2] = 0.0
    scores = scores_of(latched, x, felt=felt)
    others = [channel for channel in range(channels) if channel != 2]
    assert (scores[:, SEGMENT, 2].mean(1) > 5 * scores[:, :, others].abs().amax((1, 2))).all()


def test_the_last_segments_are_tried_a_step_beside() -> None:
    """Halves of 32 steps begin at even steps or at multiples of four; this event begins between them."""

    def needs_three(x: Tensor) -> Tensor:
        return two_classes(8 * torch.sigmoid(20 * (x[:, 13:16, 2].amin(1) - 1)) - 4)

    x = torch.zeros(2, STEPS, CHANNELS)
    x[:, 13:16, 2] = 3.0
    best = scores_of(needs_three, x).flatten(1).topk(3).indices.sort(1).values
    assert (best == torch.tensor([13, 14, 15]) * CHANNELS + 2).all()


def test_a_channel_that_speaks_for_and_against_is_still_divided() -> None:
    """As a whole it comes to less than nothing, and the other channels come first; attributions promise it."""

    def both_ways(x: Tensor) -> Tensor:
        others = 0.9 * x[:, :, [0, 1, 3]].mean((1, 2))
        return two_classes(x[:, 4:8, 2].mean(1) - 1.1 * x[:, 20:24, 2].mean(1) + others)

    x = torch.ones(2, STEPS, CHANNELS)
    hoped = torch.zeros_like(x)
    hoped[:, 4:8, 2] = 1.0
    narrow = SegmentSearch(keep=(2,), middles=0, shifted=1, finest=4.0)
    departure = departure_of(both_ways, x, operators=("zero",))
    with_hope, without = (segment_scores(departure, h, torch.ones_like(x), narrow) for h in (hoped, 0 * hoped))
    assert (with_hope[:, 4:8, 2].amin(1) > with_hope[:, 20:24, 2].amax(1)).all()
    assert (with_hope[:, 4:8, 2].amin(1) > with_hope[:, :, [0, 1, 3]].amax((1, 2))).all()
    assert (without[:, 4:8, 2] < 0).all()


def test_padding_is_never_part_of_a_segment() -> None:
    x = high_segment()
    exists = torch.ones_like(x, dtype=torch.bool)
    exists[:, 24:] = False
    departure = alone(latched, x, exists)
    scores = segment_scores(departure, torch.zeros_like(x), torch.ones_like(x), USUAL_SEARCH)
    assert (scores[:, SEGMENT, 2].amin(1) > scores[:, 24:].amax((1, 2))).all()
    poisoned = torch.where(exists, x, torch.full_like(x, 1e3))
    departure = alone(latched, poisoned, exists)
    again = segment_scores(departure, torch.zeros_like(x), torch.ones_like(x), USUAL_SEARCH)
    torch.testing.assert_close(again[exists], scores[exists])


def test_a_series_shorter_than_the_finest_segment_is_tried_as_a_whole() -> None:
    x = torch.zeros(2, 2, 3)
    x[:, :, 1] = 2.0
    departure = departure_of(lambda z: two_classes(z[:, :, 1].sum(1) - 1), x, operators=("zero",))
    scores = segment_scores(departure, torch.zeros_like(x), torch.ones_like(x), USUAL_SEARCH)
    truth = torch.from_numpy(cells(x, slice(0, 2), 1))
    assert scores[truth].min() > scores[~truth].max()
