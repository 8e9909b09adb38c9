from __future__ import annotations

import numpy as np
import pytest
import torch

from dynamask_mlflow.evaluation.sanity import randomized_weights, rank_similarity

EVERYWHERE = np.ones((3, 5, 4), dtype=bool)


def test_weights_are_other_ones_inside_and_the_same_again_outside() -> None:
    network = torch.nn.GRU(4, 6)
    before = {name: weights.clone() for name, weights in network.state_dict().items()}
    with randomized_weights(network, seed=0):
        inside = {name: weights.clone() for name, weights in network.state_dict().items()}
    assert not any(torch.equal(inside[name], before[name]) for name in before)
    assert all(torch.equal(weights, before[name]) for name, weights in network.state_dict().items())


def test_similarity_is_one_for_the_same_order_and_minus_one_for_its_reverse() -> None:
    scores = np.random.default_rng(0).normal(size=(3, 5, 4))
    assert rank_similarity(scores, np.exp(scores), EVERYWHERE) == pytest.approx(1)
    assert rank_similarity(scores, -scores, EVERYWHERE) == pytest.approx(-1)


def test_similarity_looks_only_at_cells_that_exist() -> None:
    first = np.random.default_rng(0).normal(size=(1, 5, 4))
    second = first.copy()
    second[:, 3:] = first[:, 3:][:, ::-1] * -7
    exists = np.arange(5)[None, :, None] < np.full((1, 1, 4), 3)
    assert rank_similarity(first, second, exists) == pytest.approx(1)


def test_cells_that_tie_do_not_make_two_orders_alike() -> None:
    few = np.zeros((2, 6, 4))
    few[:, 0, 0] = 1
    other = np.zeros((2, 6, 4))
    other[:, 5, 3] = 1
    assert rank_similarity(few, other, np.ones(few.shape, dtype=bool)) == pytest.approx(-1 / 23)
    assert np.isnan(rank_similarity(few, np.zeros_like(few), np.ones(few.shape, dtype=bool)))
