"""Which algorithm explains an answer."""

import pytest
import torch
from networks import Recurrent, sequences, with_seed

from dynamask_mlflow import ExplainConfig, explain
from dynamask_mlflow.masks.select_algorithm import select_algorithm
from dynamask_mlflow.masks.target_spec import parse_target


@pytest.mark.parametrize(
    ("options", "steps", "task", "expected"),
    [
        ({}, 1, "classification", "sequence"),
        ({}, 1, "regression", "sequence"),
        ({}, 24, "classification", "every step"),
        ({"target": "step:5"}, 24, "classification", "sequence"),
        ({"target": 1}, 24, "classification", "sequence"),
        ({"target": torch.sum}, 24, "regression", "sequence"),
        ({"loss": "cross_entropy"}, 1, "classification", "every step"),
        ({"loss": "margin"}, 1, "classification", "sequence"),
        ({"loss": "squared"}, 1, "regression", "sequence"),
        ({"loss": "squared"}, 1, "classification", "every step"),
        ({"deletion": True}, 1, "classification", "deletion"),
        ({"deletion": True}, 24, "regression", "deletion"),
    ],
)
def test_shape_target_and_settings_decide(options: dict[str, object], steps: int, task: str, expected: str) -> None:
    config = ExplainConfig(**options)  # type: ignore[arg-type]
    assert select_algorithm(config, parse_target(config.target), steps, task) == expected


def test_only_one_number_has_attributions_and_a_direction() -> None:
    x = sequences(2, 6, 4)
    one = explain(with_seed(Recurrent), x, progress=False)
    assert one.attributions is not None
    assert one.direction.any()
    every = explain(with_seed(Recurrent, 4, 2, True), x, steps=2, progress=False)
    assert every.attributions is None
    assert not every.direction.any()
    assert (every.algorithm == "every step").all()
