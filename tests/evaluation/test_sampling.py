from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.evaluation.evaluate import choose_rows
from dynamask_mlflow.evaluation.sequences import as_sequences

DATA = as_sequences(np.zeros((100, 3, 2)), ids=[f"p{i}" for i in range(100)])


def rows(outputs: np.ndarray | None = None, task: str = "classification", **options: Any) -> list[int]:
    def asked() -> np.ndarray:
        assert outputs is not None, "the outputs are not needed for this choice"
        return outputs

    return choose_rows(DATA, EvaluationConfig(**options), asked, task).tolist()


def probabilities(p: Any) -> np.ndarray:
    p = np.asarray(p, dtype=np.float64)
    return np.stack([1 - p, p], axis=-1)


def test_random_sampling_repeats_with_the_seed_and_takes_nobody_twice() -> None:
    first = rows(instances=30)
    assert first == rows(instances=30)
    assert first != rows(instances=30, seed=1)
    assert len(set(first)) == 30
    assert first == sorted(first)


@pytest.mark.parametrize("options", [{"instances": None}, {"instances": 1000}, {"instances": 100, "sampling": "risk"}])
def test_asking_for_all_or_more_gives_all(options: dict[str, Any]) -> None:
    assert rows(**options) == list(range(100))


def test_ids_are_taken_as_given_and_in_that_order() -> None:
    assert rows(ids=["p7", "p3"], instances=1) == [7, 3]


def test_unknown_ids_are_named() -> None:
    with pytest.raises(ValueError, match="but 2 of 3 are not among its 100: 'x', 'y'"):
        rows(ids=["p1", "x", "y"])


def test_classes_are_sampled_in_proportion_and_a_rare_one_is_not_missed() -> None:
    p = np.r_[np.full(3, 0.9), np.full(97, 0.1)]
    chosen = rows(probabilities(p), sampling="class", instances=10)
    assert len(chosen) == 10
    assert sum(row < 3 for row in chosen) == 1


def test_risk_sampling_spreads_over_all_ranks() -> None:
    p = np.random.default_rng(0).permutation(np.linspace(0, 1, 100))
    taken = np.sort(p[rows(probabilities(p), sampling="risk", instances=10)])
    assert (np.floor(taken * 9.999) == np.arange(10)).all()


def test_risk_sampling_never_takes_an_instance_twice() -> None:
    p = np.random.default_rng(0).random(100)
    for seed in range(20):
        taken = rows(probabilities(p), sampling="risk", instances=24, seed=seed)
        assert len(set(taken)) == 24


def test_risk_of_a_regression_is_its_value_and_per_step_outputs_are_averaged() -> None:
    value = np.random.default_rng(0).permutation(100).astype(float)
    plain = rows(value, "regression", sampling="risk", instances=4)
    assert plain == rows(np.repeat(value[:, None], 3, axis=1), "regression", sampling="risk", instances=4)
    assert (np.sort(value[plain]) // 25 == np.arange(4)).all()


def test_instances_on_which_the_model_fails_form_a_class_of_their_own() -> None:
    p = np.r_[np.full(50, np.nan), np.full(50, 0.9)]
    chosen = rows(probabilities(p), sampling="class", instances=10)
    assert sum(row < 50 for row in chosen) == 5
