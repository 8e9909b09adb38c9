from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.masks.config import ExplainConfig


def test_an_unknown_key_is_named_with_the_nearest_valid_one() -> None:
    with pytest.raises(ValueError, match=r"Unknown key 'instanses'\. Did you mean 'instances'\?"):
        EvaluationConfig.from_mapping({"instanses": 3})
    with pytest.raises(ValueError, match=r"Unknown key 'operator'\. Did you mean 'operators'\?"):
        EvaluationConfig.from_mapping({"operator": "blur:1"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"instances": 0}, "Expected instances >= 1, or None, but got 0"),
        ({"sampling": "stratified"}, "Expected sampling to be one of"),
        ({"ids": "p1"}, r"Expected ids to be a list \(of text each\) or None, but got 'p1'"),
        ({"ids": []}, "Expected at least one of ids, or None"),
        ({"ids": ["a", "a"]}, "Expected ids without repetition"),
        ({"methods": ["nested", "nested"]}, "Expected methods without repetition"),
        ({"curve_areas": [0.0, 0.5]}, r"Expected curve_areas in \(0, 1\]"),
        ({"images": -1}, "Expected images >= 0"),
        ({"area": 1.5}, r"Expected area in \(0, 1\], but got 1.5"),
    ],
)
def test_bad_values_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EvaluationConfig.from_mapping(options)


def test_json_and_back_gives_the_same_settings() -> None:
    config = EvaluationConfig(ids=("a", "b"), methods=("nested", "paper"), operators=("blur:1",), area=0.1)
    assert EvaluationConfig.from_mapping(json.loads(json.dumps(config.to_dict()))) == config


def test_every_key_stands_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "mlflow.md").read_text(encoding="utf-8")
    missing = [name for name in EvaluationConfig.model_fields if f"`{name}`" not in guide]
    assert missing == []


def test_each_method_gets_the_settings_of_the_fit() -> None:
    config = EvaluationConfig(methods=("nested", "paper"), seed=3, instances=5)
    assert config.fit_config("paper") == ExplainConfig(method="paper", seed=3)
    assert config.all_methods == ("nested", "paper")
    assert EvaluationConfig(method="paper").all_methods == ("paper",)
