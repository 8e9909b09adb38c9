"""The trigger form: params in sections, each with a JSON schema, so that a bad value is refused at the trigger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from airflow.sdk import Param

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow._schema import settings_schema
from dynamask_mlflow._settings import LARGEST
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.identity import DEFAULT_SITE

WINDOW_PATTERN = r"^(all|\d{4}(-\d{2}(-\d{2})?)?(\.\.\d{4}(-\d{2}(-\d{2})?)?)?)?$"
SITE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$"
SOURCE_KEYS = ("model", "data", "window", "site", "split", "reference_run_id", "store", "experiment")
_WHAT, _JUDGE, _EXPLAIN, _WHERE = "What to audit", "What counts as drift", "How to explain", "Where things go"
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "minLength")
# Settings with a field of their own in the form; all others go into `settings`.
_FORM = {
    _WHAT: ("instances",),
    _JUDGE: ("minimum", "alpha", "audits_per_year", "effect", "tolerance", "by", "reference"),
    _EXPLAIN: ("steps", "seed", "device"),
}


Config = AuditConfig | Mapping[str, Any]
"""Settings of an audit, as a DAG file gives them."""


def as_config(config: Config | None) -> AuditConfig:
    """The settings that a DAG file gives, checked.

    >>> as_config({"instances": 50}).instances, as_config(None) == AuditConfig()
    (50, True)
    """
    return config if isinstance(config, AuditConfig) else AuditConfig.from_mapping(config or {})


def audit_params(source: Mapping[str, Any], config: AuditConfig) -> dict[str, Param]:
    """The form of an audit, filled with the DAG's own values."""
    params = _source_params(source) | {
        name: _setting(name, config, section) for section, names in _FORM.items() for name in names
    }
    params["reference_run_id"] = Param(
        source.get("reference_run_id"), type=["null", "string"], section=_JUDGE,
        description="Run of another reference than the version's own.",
    )  # fmt: skip
    return params | _more(source)


def reference_params(source: Mapping[str, Any], config: AuditConfig) -> dict[str, Param]:
    """The form of a reference."""
    params = _source_params(source)
    params["reference_instances"] = _setting("reference_instances", config, _WHAT)
    params |= {name: _setting(name, config, _EXPLAIN) for name in _FORM[_EXPLAIN]}
    params["rebuild"] = Param(
        False, type="boolean", section=_WHAT, description="Build it anew though the version has one."
    )
    return params | _more(source)


def merge_source(source: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The DAG's own values, and what the form says instead."""
    return {**source, **{key: params[key] for key in SOURCE_KEYS if key in params}}


def merge_config(config: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The same for the settings. `settings` has the last word."""
    own = {key: value for key, value in params.items() if key in AuditConfig.model_fields}
    return {**config, **own, **(params.get("settings") or {})}


def _setting(name: str, config: AuditConfig, section: str) -> Param:
    """A field of the form for one setting, as the settings' schema describes it."""
    schema = settings_schema(AuditConfig)["properties"][name]
    return Param(config.to_dict()[name], description=schema["description"], section=section, **_field_schema(schema))


def _field_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """In the form that Airflow's fields know: a list of types instead of alternatives, arrays as lines of text."""
    options = schema.get("anyOf", [schema])
    merged = {key: value for option in options for key, value in option.items() if key in _BOUNDS and value != LARGEST}
    kinds = [str(option["type"]) for option in options]
    return {**merged, "type": sorted(kinds, reverse=True) if len(kinds) > 1 else kinds[0]}


def _source_params(source: Mapping[str, Any]) -> dict[str, Param]:
    name = re.escape(ModelUri.parse(source["model"]).name).replace(r"\-", "-").replace(r"\ ", " ")
    return {
        "model": Param(
            source["model"], type="string", pattern=f"^models:/{name}([@/].+)?$", section=_WHAT,
            description="An alias or a version of this DAG's model.",
        ),
        "data": Param(
            source["data"], type="string", minLength=1, section=_WHAT,
            description="Folder of a built dataset, which every worker can read.",
        ),
        "window": Param(
            source.get("window"), type=["null", "string"], pattern=WINDOW_PATTERN, section=_WHAT,
            description="2026-03, 2026-03-05, 2026-01..2026-03 or all; empty: the asset event's, the data interval's, "
            "or the last full period.",
        ),
        "site": Param(
            source.get("site") or DEFAULT_SITE, type="string", pattern=SITE_PATTERN, section=_WHAT,
            description="Where the stays come from; each site has a reference, verdicts and alerts of its own.",
        ),
        "split": Param(
            source.get("split"), type=["null", "string"], section=_WHAT, description="Only stays of this split."
        ),
    }  # fmt: skip


def _more(source: Mapping[str, Any]) -> dict[str, Param]:
    return {
        "settings": Param(
            {}, type=["null", "object"], properties=_known_settings(), additionalProperties=False, section=_EXPLAIN,
            description="Any other setting of an audit, as JSON.",
        ),
        "experiment": Param(
            source["experiment"], type="string", minLength=1, section=_WHERE, description="Of MLflow."
        ),
        "store": Param(
            source.get("store"), type=["null", "string"], section=_WHERE,
            description="Folder of the shards, shared by all workers; empty: DYNAMASK_STORE, or a cache at home.",
        ),
    }  # fmt: skip


@cache
def _known_settings() -> dict[str, Any]:
    """What a value of each setting must be. The form does not show descriptions, and every DAG is stored with this."""
    known = settings_schema(AuditConfig)["properties"]
    return {
        name: {key: value for key, value in schema.items() if key not in ("description", "default")}
        for name, schema in known.items()
    }
