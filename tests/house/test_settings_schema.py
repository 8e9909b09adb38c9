"""Settings are described once: schema, form and page come from the dataclasses."""

from dataclasses import fields
from pathlib import Path

import pytest

from dynamask_mlflow._schema import descriptions, settings_schema
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.cli.settings_page import settings_page
from dynamask_mlflow.evaluation.config import EvaluationConfig
from dynamask_mlflow.masks.config import ExplainConfig

CONFIGS = (ExplainConfig, EvaluationConfig, AuditConfig)


@pytest.mark.parametrize("config", CONFIGS)
def test_every_setting_is_described(config: type) -> None:
    assert set(descriptions(config)) == {field.name for field in fields(config)}


def test_a_line_may_describe_several_settings() -> None:
    found = descriptions(AuditConfig)
    assert found["alert_effect"].startswith("Change of the share above a threshold")
    assert found["risk_effect"] == "Change of the mean predicted risk that warns."
    assert found["trust_alpha"] == found["trust_minimum"]


def test_types_and_defaults_are_those_of_the_dataclass() -> None:
    found = settings_schema(EvaluationConfig)
    assert found["properties"]["instances"]["default"] == 64
    assert {"type": "integer"} in found["properties"]["instances"]["anyOf"]
    assert found["properties"]["hash_ids"]["type"] == "boolean"
    assert found["additionalProperties"] is False


def test_the_page_names_every_setting_once_a_config_and_no_other() -> None:
    """What `make settings` writes; the committed page is compared by hand, so that no description is owed at once."""
    rows = [line.split("`")[1] for line in settings_page().splitlines() if line.startswith("| `")]
    fit = {field.name for field in fields(ExplainConfig)}
    own = [sorted({field.name for field in fields(config)} - fit) for config in (EvaluationConfig, AuditConfig)]
    assert sorted(rows) == sorted([*fit, *own[0], *own[1]])


def test_the_committed_page_holds_no_setting_that_is_gone() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    rows = {line.split("`")[1] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")}
    known = {field.name for config in CONFIGS for field in fields(config)}
    assert rows <= known, f"Write the page again, `make settings`: {sorted(rows - known)} are gone"
