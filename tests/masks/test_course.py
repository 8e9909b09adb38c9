"""The answer over time: what moved it adds up between any two times."""

import numpy as np
import pytest
import torch

from dynamask_mlflow import explain_change
from dynamask_mlflow.masks.change.course import explain_course
from tests.masks.networks import Recurrent, with_seed

STEPS = 9
X = torch.randn(3, STEPS, 4, generator=torch.Generator().manual_seed(4))


def test_moves_and_time_alone_add_up_to_the_change_between_any_two_times() -> None:
    model = with_seed(Recurrent, 4, 2, True)
    course = explain_course(model, X, device="cpu")
    moved = course.moves.sum(axis=2) + course.elapsed
    np.testing.assert_allclose(np.diff(course.scores, axis=1), moved[:, 1:], atol=1e-4)
    change = explain_change(model, X, since=4, until=7, device="cpu", progress=False)
    np.testing.assert_allclose(course.scores[:, [3, 6]], np.stack([change.before, change.after], 1), atol=1e-5)
    np.testing.assert_allclose(course.outputs[:, 6], change.outputs_after, atol=1e-5)
    between = course.between(4, 7).sum(axis=1) + course.elapsed[:, 4:7].sum(axis=1)
    np.testing.assert_allclose(between, change.change, atol=1e-4)


def test_a_channel_that_the_model_does_not_read_moves_nothing() -> None:
    course = explain_course(lambda z: 2 * z[:, -1, 1], X, padding="carry", task="regression", device="cpu")
    np.testing.assert_allclose(course.moves[:, 1:, 1], 2 * np.diff(X[:, :, 1].numpy(), axis=1), atol=1e-5)
    assert not np.delete(course.moves, 1, axis=2).any()
    assert not course.elapsed.any()


def test_few_points_spread_over_the_sequence_and_ends_are_kept() -> None:
    model = with_seed(Recurrent)
    course = explain_course(model, X, padding="carry", points=3, lengths=[9, 6, 4], device="cpu")
    assert course.steps.tolist() == [1, 5, 9]
    assert np.isnan(course.scores).tolist() == [[False] * 3, [False, False, True], [False, True, True]]
    np.testing.assert_allclose(course.moves[0].sum(1)[1:], np.diff(course.scores[0]), atol=1e-4)
    with pytest.raises(ValueError, match="Expected two rising numbers"):
        course.between(1, 4)
    with pytest.raises(ValueError, match="at least 2 points"):
        explain_course(model, X, padding="carry", points=1)
