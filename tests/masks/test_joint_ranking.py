"""Two rankings of the new cells become one."""

import numpy as np
import pytest

from dynamask_mlflow.masks.change.joint_ranking import joint_ranking
from dynamask_mlflow.masks.result import Masks


def fitted(scores: list[float], coefficients: list[float], direction: int = 1) -> Masks:
    shape = (1, len(scores), 1)
    return Masks(
        masks=np.array(coefficients, dtype=np.float32).reshape(shape),
        scores=np.array(scores, dtype=np.float32).reshape(shape),
        areas=np.array([0.5]),
        errors=np.zeros((1, 1)),
        area=np.array([0.5]),
        direction=np.array([direction], dtype=np.int8),
        config={"area": "auto"},
    )


NEW = np.array([False, True, True, True, True]).reshape(1, 5, 1)
AGAINST = fitted([0.0, 0.9, 0.8, 0.4, 0.0], [0.0, 0.9, 0.7, 0.2, 0.0])


def test_a_cell_must_have_moved_and_matter_to_the_later_answer() -> None:
    later = fitted([0.9, 0.3, 0.8, 0.2, 0.9], [0.9, 0.1, 0.95, 0.1, 0.9])
    joined = joint_ranking(AGAINST, later, NEW)
    # By the product of both coefficients: .7 * .95, .9 * .1, .2 * .1. The first was known, the last did not move.
    order = joined.scores[0, :, 0]
    assert order[0] == order[4] == 0
    assert order[2] > order[1] > order[3] > 0
    np.testing.assert_allclose(joined.masks[0, :, 0], [0, 0.7, 0.9, 0.2, 0])
    assert joined.binary[0, :, 0].tolist() == [False, True, True, False, False]


@pytest.mark.parametrize("direction", [0, -1])
def test_an_explanation_of_another_movement_has_no_part_in_it(direction: int) -> None:
    later = fitted([0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.2, 0.3, 0.4, 0.5], direction)
    joined = joint_ranking(AGAINST, later, NEW)
    assert np.array_equal(joined.scores, AGAINST.scores)
    assert np.array_equal(joined.masks, AGAINST.masks)
    assert np.array_equal(joined.binary, AGAINST.binary)
