"""The trigger form: params in sections, each with a JSON schema, so that a bad value is refused at the trigger."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from airflow.sdk import Param

from dynamask_mlflow._model_uri import ModelUri
from dynamask_mlflow._schema import settings_schema
from dynamask_mlflow.audit.config import REFERENCES, AuditConfig

WINDOW_PATTERN = r"^(all|\d{4}(-\d{2}(-\d{2})?)?(\.\.\d{4}(-\d{2}(-\d{2})?)?)?)?$"
SITE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,49}$"
SOURCE_KEYS = ("model", "data", "window", "site", "split", "reference_run_id", "store", "experiment")
_WHAT, _JUDGE, _EXPLAIN, _WHERE = "What to audit", "What counts as drift", "How to explain", "Where things go"
_INTEGER, _SHARE = ["null", "integer"], {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
# Settings with a field of their own in the form; all others go into `settings`.
_OWN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "instances": (_WHAT, "Stays to explain, drawn by the seed; empty for all.", {"type": _INTEGER, "minimum": 1}),
    "minimum": (_JUDGE, "With fewer stays the verdict is inconclusive.", {"type": "integer", "minimum": 1}),
    "alpha": (_JUDGE, "Chance of any false alarm in a year of audits.", _SHARE),
    "audits_per_year": (_JUDGE, "Over which that chance is spent.", {"type": "integer", "minimum": 1}),
    "effect": (_JUDGE, "Share of attention that must have moved to alarm; its lower bound counts.", _SHARE),
    "tolerance": (_JUDGE, "Share of attention above which a move would matter; below it is ok.", _SHARE),
    "by": (_JUDGE, "Subgroups by attributes of the stays, such as sex and unit.", {"type": "array"}),
    "reference": (_JUDGE, "The version's own reference, or the last complete audit.", {"enum": list(REFERENCES)}),
    "steps": (_EXPLAIN, "Optimisation steps; empty for the method's own.", {"type": _INTEGER, "minimum": 1}),
    "seed": (_EXPLAIN, "Of every random draw.", {"type": "integer"}),
    "device": (_EXPLAIN, "auto, cpu, cuda, cuda:1, mps.", {"type": "string", "minLength": 1}),
}


def audit_params(source: Mapping[str, Any], config: AuditConfig) -> dict[str, Param]:
    """The form of an audit, filled with the DAG's own values."""
    shown = config.to_dict()
    params = _source_params(source) | {
        name: Param(shown[name], description=text, section=section, **schema)
        for name, (section, text, schema) in _OWN.items()
    }
    params["reference_run_id"] = Param(
        source.get("reference_run_id"), type=["null", "string"], section=_JUDGE,
        description="Run of another reference than the version's own.",
    )  # fmt: skip
    return params | _more(source)


def reference_params(source: Mapping[str, Any], config: AuditConfig) -> dict[str, Param]:
    """The form of a reference."""
    shown = config.to_dict()
    params = _source_params(source)
    params["reference_instances"] = Param(
        shown["reference_instances"], type=_INTEGER, minimum=1, section=_WHAT, description="Stays; empty for all."
    )
    for name in ("steps", "seed", "device"):
        section, text, schema = _OWN[name]
        params[name] = Param(shown[name], description=text, section=section, **schema)
    params["rebuild"] = Param(
        False, type="boolean", section=_WHAT, description="Build it anew though the version has one."
    )
    return params | _more(source)


def merge_source(source: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The DAG's own values, and what the form says instead."""
    return {**source, **{key: params[key] for key in SOURCE_KEYS if key in params}}


def merge_config(config: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The same for the settings. `settings` has the last word."""
    known = {field.name for field in fields(AuditConfig)}
    own = {key: value for key, value in params.items() if key in known}
    return {**config, **own, **(params.get("settings") or {})}


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
            source.get("site") or "default", type="string", pattern=SITE_PATTERN, section=_WHAT,
            description="Where the stays come from; each site has a reference, verdicts and alerts of its own.",
        ),
        "split": Param(
            source.get("split"), type=["null", "string"], section=_WHAT, description="Only stays of this split."
        ),
    }  # fmt: skip


def _more(source: Mapping[str, Any]) -> dict[str, Param]:
    known = settings_schema(AuditConfig)["properties"]
    return {
        "settings": Param(
            {}, type=["null", "object"], properties=known, additionalProperties=False, section=_EXPLAIN,
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
