"""Who was told of a finding: tags on the runs, so that nobody is told the same thing twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dynamask_mlflow.audit import publish

ALERTED, TOLD = "dynamask.alerted", "dynamask.told"


def already_alerted(verdict: Mapping[str, Any], experiment: str) -> bool:
    """Whether the same finding was told for this window or for one that is joined to it by audits with that finding.

    Looked up in both directions: a backfill need not run in order.
    """
    from mlflow import MlflowClient

    client, finding = MlflowClient(), verdict["fingerprint"]
    runs = [entry.run_id for entry in publish.audit_history(experiment, verdict["model"], verdict["version"])]
    if verdict["run_id"] not in runs:
        return False
    place = runs.index(verdict["run_id"])
    for neighbours in (reversed(runs[: place + 1]), runs[place + 1 :]):
        for tags in _tags(client, neighbours):
            if tags.get(publish.FINGERPRINT) != finding:
                break
            if tags.get(ALERTED) == finding:
                return True
    return False


def told(run_id: str, finding: str) -> frozenset[str]:
    """Names of those who were told of this finding, by an attempt that may have failed half-way."""
    from mlflow import MlflowClient

    stored = json.loads(MlflowClient().get_run(run_id).data.tags.get(TOLD, "{}"))
    return frozenset(stored.get("by", ())) if stored.get("finding") == finding else frozenset()


def note_told(run_id: str, finding: str, by: Iterable[str]) -> None:
    from mlflow import MlflowClient

    MlflowClient().set_tag(run_id, TOLD, json.dumps({"finding": finding, "by": sorted(by)}))


def mark_alerted(verdict: Mapping[str, Any]) -> None:
    """All were told."""
    from mlflow import MlflowClient

    MlflowClient().set_tag(verdict["run_id"], ALERTED, verdict["fingerprint"])


def describe_alert(verdict: Mapping[str, Any]) -> str:
    """One line: state, model, window, the first reason."""
    reason = next(iter(verdict["reasons"]), "")
    return f"{verdict['state']}: {verdict['model']} version {verdict['version']}, {verdict['window']}. {reason}".strip()


def tag_version(verdict: Mapping[str, Any]) -> None:
    """The alert as a tag of the version, where people who look at the model see it."""
    from mlflow import MlflowClient

    MlflowClient().set_model_version_tag(
        verdict["model"], verdict["version"], "dynamask.alert", describe_alert(verdict)[:4900]
    )


def _tags(client: Any, runs: Iterable[str]) -> Iterable[dict[str, str]]:
    return (client.get_run(run).data.tags for run in runs)
