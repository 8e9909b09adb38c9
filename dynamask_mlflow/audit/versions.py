"""Two versions of a model, asked about the same stays and the same windows: what changed, and why."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow.audit.comparison import compare_windows
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.models import resolve_model
from dynamask_mlflow.audit.records import AuditSource, ShardGroup, StaySource
from dynamask_mlflow.audit.shards import gather, plan_shards, writable_store
from dynamask_mlflow.audit.statistics import compare_versions, split_causes
from dynamask_mlflow.audit.verdict import Verdict, evaluate_verdict
from dynamask_mlflow.audit.windows import draw, find_rows, parse_window, with_outcomes
from dynamask_mlflow.audit.workers import Progress, Workers


def compare_audits(
    source: AuditSource,
    against: str,
    before: str,
    *,
    split_before: str | None = None,
    config: AuditConfig | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> Verdict:
    """Fit {against, model} x {before, window} and split the change into data, model and interaction.

    The data arm is tested under the old version; the model arm compares both on the stays of `before`.

    Args:
        source: the new version and the window of now. against: the old version. before: the window that was normal.
        split_before: only stays of this split before. progress: called after each shard.

    >>> source = AuditSource(model="models:/icu-mortality/4", data="icu", window="2026-03")
    >>> config = AuditConfig(instances=100, reference_instances=100)
    >>> verdict = compare_audits(source, "models:/icu-mortality/3", "2025-12", config=config)
    >>> verdict.metrics["cause_model"]
    0.0
    """
    config, data = config or AuditConfig(), source.data
    new, old = resolve_model(source.model), resolve_model(against)
    spans = {
        "before": (parse_window(before), split_before, config.reference_instances),
        "now": (parse_window(source.window), source.split, config.instances),
    }
    store = writable_store(source.store)
    plans: dict[tuple[str, str], list[str]] = {}
    chosen: dict[str, NDArray[np.intp]] = {}
    with Workers(processes) as workers:
        for name, (span, only, count) in spans.items():
            rows = chosen[name] = draw(find_rows(data, span, only), count, config.seed, span.label)
            stays = StaySource(stays=data, rows=tuple(int(row) for row in rows), hashed=config.hash_ids)
            for version, ref in (("old", old), ("new", new)):
                group = ShardGroup(model=ref, source=stays, config=config)
                plans[version, name] = plan_shards(group, store, least=workers.least_shards)
        workers.fit([uri for uris in plans.values() for uri in uris], progress)
    cells = {key: with_outcomes(gather(uris), data, chosen[key[1]], config) for key, uris in plans.items()}
    for (version, name), part in cells.items():
        if not part.usable.any():
            why = part.first_failure or "no reason is known"
            raise AuditError(f"Expected explanations of the {version} version on {name}, but all failed: {why}")
    if list(cells["old", "before"].ids) != list(cells["new", "before"].ids):
        raise AuditError("Expected both versions to explain the same stays, but one of them failed on some.")
    profiles = {key: part.mean_shares()[0] for key, part in cells.items()}
    result = compare_windows(
        cells["old", "before"],
        cells["old", "now"],
        config,
        versions=compare_versions(cells["old", "before"].shares, cells["new", "before"].shares),
        causes=split_causes(
            profiles["old", "before"], profiles["old", "now"], profiles["new", "before"], profiles["new", "now"]
        ),
    )
    return evaluate_verdict(result, config, model=new.name, version=new.version, window=spans["now"][0].label)
