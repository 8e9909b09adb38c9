"""Which contestant makes the ordering, and on which instances."""

import numpy as np
import pytest
import torch
from departures import departure_of
from torch import Tensor
from white_boxes import high_segment, latched_beside_faint_cells, segment, spikes

from dynamask_mlflow.masks import ordering
from dynamask_mlflow.masks.departure import Departure
from dynamask_mlflow.masks.ordering import CONTESTANTS, Ordering, order_cells
from dynamask_mlflow.masks.path_attribution import path_attributions
from dynamask_mlflow.metrics import auprc


def ordered(model: object, x: Tensor, *, fast: bool = False) -> Ordering:
    departure = departure_of(model, x)
    return order_cells(departure.by_strength(), path_attributions(departure, 6, 6), fast=fast, tick=lambda: None)


def test_segments_win_where_gradients_feel_only_faint_cells() -> None:
    nature = segment()
    masks = nature.explained()
    assert (masks.algorithm == "segments").mean() > 0.8
    assert auprc(masks.scores, nature.truth).min() > 0.95


def test_gradients_win_on_several_single_cells() -> None:
    nature = spikes()
    masks = nature.explained()
    assert (masks.algorithm == "gradients").all()
    np.testing.assert_array_equal(masks.binary, nature.truth)


def test_in_one_batch_each_instance_has_its_own_winner() -> None:
    def both(x: Tensor) -> Tensor:
        return latched_beside_faint_cells(x) + spikes().model(x) * torch.tensor([0.0, 1.0])

    x = torch.cat([high_segment(3), spikes(3).x])
    masks = ordered(both, x)
    assert masks.winner.tolist() == [1, 1, 1, 0, 0, 0]


def truth_as_scores(departures: list[Departure], *_: object) -> Tensor:
    scores = torch.zeros_like(departures[0].batch.x)
    scores[:, 12:20, 2] = 1
    return scores


def nonsense(departure: Departure, *_: object) -> Tensor:
    return torch.rand(departure.batch.x.shape, generator=torch.Generator().manual_seed(0))


def test_the_nested_fit_wins_where_it_holds_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "segment_scores", nonsense)
    nature = segment()
    assert not (ordered(nature.model, nature.x).winner == 1).any()
    monkeypatch.setattr(ordering, "nested_scores", truth_as_scores)
    result = ordered(nature.model, nature.x)
    assert (result.winner == CONTESTANTS.index("nested fit")).float().mean() > 0.8
    assert auprc((1 - result.order.entry()).numpy(), nature.truth).min() > 0.95
    assert (nature.explained().algorithm == "nested fit").mean() > 0.8


def test_the_nested_fit_is_not_tried_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "segment_scores", nonsense)
    monkeypatch.setattr(ordering, "nested_scores", truth_as_scores)
    nature = segment()
    assert not (ordered(nature.model, nature.x, fast=True).winner == 2).any()


def test_a_challenger_that_holds_less_changes_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    nature = spikes()
    alone = ordered(nature.model, nature.x)
    monkeypatch.setattr(ordering, "TOLERANCE", -1.0)
    monkeypatch.setattr(ordering, "segment_scores", nonsense)
    challenged = ordered(nature.model, nature.x)
    assert (challenged.winner == 0).all()
    assert auprc((1 - challenged.order.entry()).numpy(), nature.truth).min() == 1
    torch.testing.assert_close(challenged.hold, alone.hold)


def test_gradients_whose_integrals_sum_to_the_departure_are_not_challenged(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def counted(departure: Departure, *_: object) -> Tensor:
        tried.append(len(departure.batch.x))
        return torch.zeros_like(departure.batch.x)

    monkeypatch.setattr(ordering, "segment_scores", counted)
    monkeypatch.setattr(ordering, "nested_scores", lambda those, *_: counted(those[0]))
    x = torch.zeros(4, 6, 2)
    x[:, 3, 1] = 1
    result = ordered(lambda z: torch.stack([0 * z[:, 3, 1], z[:, 3, 1]], 1), x)
    assert tried == []
    assert (result.winner == 0).all()


def test_where_nothing_departs_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "segment_scores", None)
    result = ordered(lambda z: torch.stack([0 * z.sum((1, 2)), 0 * z.sum((1, 2)) + 1], 1), high_segment())
    assert result.winner.tolist() == [0] * 6
