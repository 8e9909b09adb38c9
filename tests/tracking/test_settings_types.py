"""Wrong values of settings: one kind of error, which says what was expected and what came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException
from small_evaluations import evaluate

from dynamask_mlflow._settings import ConfigError, Many, Settings, describe
from dynamask_mlflow.evaluation.config import EvaluationConfig

WRONG: list[Any] = [
    "false", "abc", "5", "", "1e3", 5, -1, 0, 1.5, -0.5, 1e308, 10**400, float("nan"), float("inf"), -float("inf"),
    True, False, None, [], (), {}, {"a": 1}, [1, 2], ["a"], [None], [[0.1]], {0.1}, b"x", object(), 1j, np.nan,
    np.array([0.1]), np.array("x"), np.zeros((2, 2)), lambda: 1, int, range(3), "\0", "é" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("name", list(EvaluationConfig.model_fields))
def test_every_field_takes_a_value_or_names_what_is_wrong_with_it(name: str) -> None:
    kind = describe(EvaluationConfig.model_fields[name].annotation)
    messages: list[str] = []
    for value in WRONG:
        try:
            config = EvaluationConfig.from_mapping({name: value})
        except ConfigError as error:
            messages.append(str(error))
            continue
        taken = getattr(config, name)
        if kind == "true or false":
            assert taken is value
            assert isinstance(value, bool)
        if kind.startswith("a whole number") and taken is not None:
            assert type(taken) is int
        if kind == "text":
            assert isinstance(taken, str)
    assert all("Expected" in message and len(message) < 6000 for message in messages)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log_inputs": "false"}, r"Expected log_inputs to be true or false, but got 'false' \(str\)"),
        ({"enabled": "false"}, r"Expected enabled to be true or false, but got 'false' \(str\)"),
        ({"instances": "5"}, r"Expected instances to be a whole number or None, but got '5' \(str\)"),
        ({"instances": 1.5}, r"Expected instances to be a whole number or None, but got 1.5 \(float\)"),
        ({"areas": 0.1}, r"Expected areas to be a list \(of a number each\) or None, but got 0.1 \(float\)"),
        ({"seed": "abc"}, r"Expected seed to be a whole number, but got 'abc' \(str\)"),
        ({"seed": -1}, "Expected seed >= 0, but got -1"),
        ({"device": "abc"}, "Expected device to be .*auto.*, but got 'abc'"),
        ({"steps": 1.5}, r"Expected steps to be a whole number or None, but got 1.5 \(float\)"),
        ({"method": 5}, r"Expected method to be text, but got 5 \(int\)"),
        ({"epsilon": float("nan")}, r"Expected epsilon to be a number, but got nan \(float\)"),
        ({"deletion": 1}, r"Expected deletion to be true or false, but got 1 \(int\)"),
        ({"operators": 5}, r"Expected operators as specs such as 'blur:1', but got 5 \(int\)"),
        ({5: 1}, r"Expected the names of settings to be text, but got 5 \(int\)"),
    ],
)
def test_an_evaluation_names_them_before_anything_is_computed(
    store: Path, saved: str, options: dict[Any, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dynamask_mlflow.tracking.evaluate_run.evaluate_masks", lambda *a, **k: pytest.fail("computed"))
    with pytest.raises(ConfigError, match=message):
        EvaluationConfig.from_mapping(options)
    if all(isinstance(key, str) for key in options):
        with pytest.raises(MlflowException, match=f"dynamask: {message}") as raised:
            evaluate(saved, **options)
        assert raised.value.error_code == "INVALID_PARAMETER_VALUE"


def test_a_device_that_is_not_there_is_named(store: Path, saved: str) -> None:
    with pytest.raises(MlflowException, match="Expected a device of this machine, but got 'cuda:7'"):
        evaluate(saved, device="cuda:7")


def test_numbers_of_numpy_and_lists_are_taken() -> None:
    config = EvaluationConfig(seed=np.int64(3), area=np.float32(0.5), curve_areas=np.array([0.5, 0.1]), ids=[7, "b"])  # type: ignore[arg-type]
    assert (type(config.seed), config.area, config.curve_areas, config.ids) == (int, 0.5, (0.1, 0.5), ("7", "b"))


class Small(Settings):
    count: int | None = None
    share: float | str = 0.1
    flag: bool = False
    many: Many[float] = ()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=4))
@settings(max_examples=200, deadline=None)
def test_whatever_json_holds_is_fitted_or_refused(value: Any) -> None:
    for name in ("count", "share", "flag", "many"):
        try:
            made = Small(**{name: value})
        except ConfigError:
            continue
        assert Small.from_mapping(made.to_dict()) == made
