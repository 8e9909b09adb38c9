"""Settings are described once: schema, form, flags and page come from their classes."""

from pathlib import Path

import click
import pytest

from dynamask_mlflow._schema import concerns, settings_schema
from dynamask_mlflow._settings import ConfigError, Settings
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.cli.audit import run
from dynamask_mlflow.cli.evaluate import evaluate
from dynamask_mlflow.cli.explain import explain
from dynamask_mlflow.cli.setting_flags import given_settings
from dynamask_mlflow.cli.settings_page import settings_page
from dynamask_mlflow.cli.train import train
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.masks.config import ExplainConfig
from dynamask_mlflow.training.config import TrainConfig

CONFIGS = (ExplainConfig, EvaluationConfig, AuditConfig)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_setting_is_described_and_belongs_to_one_concern(config: type[Settings]) -> None:
    properties = settings_schema(config)["properties"]
    assert [name for name in properties if not properties[name].get("description")] == []
    assert sorted(name for _, names in concerns(config) for name in names) == sorted(config.model_fields)


def test_types_and_defaults_are_x() -> None:
    found = settings_schema(EvaluationConfig)
    assert found["properties"]["instances"]["default"] == 64
    assert "integer" in [option["type"] for option in found["properties"]["instances"]["anyOf"]]
    assert found["properties"]["sampling"]["enum"] == ["random", "class", "risk", "first"]
    assert found["properties"]["hash_ids"]["type"] == "boolean"
    assert found["additionalProperties"] is False


def test_the_page_names_every_setting_once_a_config_and_no_other() -> None:
    """What `make settings` writes; the committed page is compared by hand, so that no description is owed at once."""
    rows = [line.split("`")[1] for line in settings_page().splitlines() if line.startswith("| `")]
    fit = set(ExplainConfig.model_fields)
    own = [sorted(set(config.model_fields) - fit) for config in (EvaluationConfig, AuditConfig)]
    assert sorted(rows) == sorted([*fit, *own[0], *own[1]])


def test_the_committed_page_holds_no_setting_that_is_gone() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    rows = {line.split("`")[1] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")}
    known = {name for config in CONFIGS for name in config.model_fields}
    assert rows <= known, f"Write the page again, `make settings`: {sorted(rows - known)} are gone"


@pytest.mark.parametrize(
    ("command", "config", "arguments", "expected"),
    [
        (evaluate, EvaluationConfig, ["--area", "0.1", "--hash-ids", "--ids", "7,b"], (0.1, True, ("7", "b"))),
        (evaluate, EvaluationConfig, ["--no-hash-ids", "--area", "best", "--ids", "none"], ("best", False, None)),
    ],
)
def test_every_setting_is_a_flag(
    command: click.Command, config: type[Settings], arguments: list[str], expected: tuple
) -> None:
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {f"--{name.replace('_', '-')}" for name in config.model_fields} <= flags
    with command.make_context("evaluate", ["models:/m/1", "x.npz", *arguments]):
        made = config.from_mapping(given_settings())
    assert (made.area, made.hash_ids, made.ids) == expected


def test_the_other_commands_have_them_too() -> None:
    for command, config in ((run, AuditConfig), (explain, ExplainConfig), (train, TrainConfig)):
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert {f"--{name.replace('_', '-')}" for name in config.model_fields} <= flags


def test_a_wrong_flag_is_the_same_error() -> None:
    with (
        evaluate.make_context("evaluate", ["m", "d", "--area", "much"]),
        pytest.raises(ConfigError, match="Expected area"),
    ):
        EvaluationConfig.from_mapping(given_settings())
