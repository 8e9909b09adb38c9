"""One audit in steps that may run in separate processes: prepare, plan, fit each shard, report.

Every step takes and returns small things that JSON can hold. `run_audit` does them all in one process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynamask_mlflow._secrets import without_secrets
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.attributes import check_attributes
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.identity import DEFAULT_SITE, AuditIdentity, check_site, content_digest
from dynamask_mlflow.audit.models import ModelRef, resolve_model
from dynamask_mlflow.audit.reference import (
    EXPERIMENT,
    _close_failed,
    load_reference,
    pinned_reference,
    previous_reference,
    reference_record,
    settings_of,
)
from dynamask_mlflow.audit.reporting import report_audit
from dynamask_mlflow.audit.runs import DatasetInput, describe_run, find_or_create_run, source_tags
from dynamask_mlflow.audit.shards import checked_store, plan_shards
from dynamask_mlflow.audit.verdict import Verdict
from dynamask_mlflow.audit.version_state import note_failure
from dynamask_mlflow.audit.windows import dataset_channels, draw, find_rows, parse_window
from dynamask_mlflow.audit.workers import Workers
from dynamask_mlflow.tracking.retries import short_retries


def prepare_audit(
    model: str,
    data: str,
    window: str,
    *,
    site: str = DEFAULT_SITE,
    split: str | None = None,
    config: AuditConfig | None = None,
    store: str | None = None,
    experiment: str = EXPERIMENT,
    reference_run_id: str | None = None,
) -> dict[str, Any]:
    """Pin alias and reference, choose the stays, open or resume the run. Returns a request for the next steps."""
    config, store = config or AuditConfig(), checked_store(store)
    check_site(site)
    check_attributes(data, config.by)
    ref, span = resolve_model(model), parse_window(window)
    population = find_rows(data, span, split)
    rows = draw(population, config.instances, config.seed, span.label)
    found = reference_run_id or pinned_reference(ref, site) or previous_reference(ref, site)
    if found is None:
        where = "" if site == DEFAULT_SITE else f" --site {site}"
        raise AuditError(
            f"Expected a reference for {ref.name} version {ref.version} at the site {site}, but there is none; make "
            f"one with `dynamask-mlflow audit reference --model {ref.uri}{where} --data ... --window ...`."
        )
    record = reference_record(found)
    content = content_digest(data, rows, len(population))
    identity = identify(ref, site, span.label, split, content, config, found)
    dataset = DatasetInput(Path(data).name or "dataset", identity.content, data, len(rows))
    run_id = open_run(identity, experiment, store, config, dataset, ref.model_id)
    return {
        "kind": "audit",
        "model": ref.to_dict(),
        "data": data,
        "site": site,
        "window": span.label,
        "split": split,
        "rows": [int(row) for row in rows],
        "population": len(population),
        "content": identity.content,
        "config": config.to_dict(),
        "store": store,
        "experiment": experiment,
        "run_id": run_id,
        "key": identity.key,
        "series": identity.series,
        "reference_run_id": found,
        "reference_model": record["model"],
        "blockers": _blockers(record, config, data),
    }


def identify(
    ref: ModelRef, site: str, window: str, split: str | None, content: str, config: AuditConfig, reference: str
) -> AuditIdentity:
    """What an audit is of."""
    return AuditIdentity(
        model=ref.name,
        version=ref.version,
        source=ref.source,
        site=site,
        window=window,
        split=split,
        content=content,
        settings=config.audit_digest,
        reference=reference,
    )


def open_run(
    identity: AuditIdentity,
    experiment: str,
    store: str,
    config: AuditConfig,
    dataset: DatasetInput,
    model_id: str | None,
) -> str:
    """The run of an audit, with its tags, parameters, dataset and model."""
    tags = {
        t.KIND: "audit",
        t.MODEL: identity.model,
        t.VERSION: identity.version,
        t.SITE: identity.site,
        t.CONTENT: identity.content,
        t.SLOT: identity.slot,
        t.SERIES: identity.series,
        t.WINDOW: identity.window,
        t.WINDOW_START: parse_window(identity.window).start or "",
        t.REFERENCE: identity.reference,
        **source_tags("dynamask-mlflow audit run"),
    }
    name = f"audit {identity.model} v{identity.version} {identity.site} {identity.window}"
    run_id = find_or_create_run(experiment, identity.key, name, tags, store)
    about = {
        "model": identity.model,
        "version": identity.version,
        "site": identity.site,
        "window": identity.window,
        "split": identity.split,
        "stays": dataset.stays,
        "reference_run_id": identity.reference,
    }
    describe_run(run_id, dataset, {**about, **settings_of(config)}, model_id)
    return run_id


def _blockers(record: dict[str, Any], config: AuditConfig, data: str) -> dict[str, str]:
    """Why the reference cannot be compared with, if it cannot: kind -> a sentence."""
    found = {}
    if record["explainer_digest"] != config.explainer_digest:
        found["settings"] = "The reference was explained with other settings: its masks cannot be compared."
    if tuple(record["channels"]) != dataset_channels(data):
        other = sorted(set(record["channels"]) ^ set(dataset_channels(data)))
        found["channels"] = "The reference has other channels than the data: " + (
            f"they differ in {', '.join(other[:5])}." if other else "they stand in another order."
        )
    return found


def plan_audit(request: dict[str, Any], shards: int | None = None, least: int = 1) -> list[str]:
    """Shards of the window and of the canary; for a new version also those that tell data and model apart.

    None at all if the reference cannot be compared with: then nothing is worth fitting. `shards`: of a window; None:
    as few as `shard_seconds` allows, but no fewer than `least`.
    """
    if request["blockers"]:
        return []
    config, ref = AuditConfig.from_mapping(request["config"]), ModelRef.from_dict(request["model"])
    store, old = str(request["store"]), ModelRef.from_dict(request["reference_model"])
    stays = {"stays": request["data"], "rows": request["rows"], "hashed": config.hash_ids}
    uris = plan_shards(ref, stays, config, store, shards=shards, least=least, keep=config.report_instances)
    reference = load_reference(request["reference_run_id"])
    if reference.inputs is not None:
        kept = Path(store.removeprefix("file://")) / "references" / reference.run_id / "anchor_inputs.npz"
        if not kept.is_file():  # workers may not see where MLflow downloads to
            from dynamask_mlflow._files import atomic_write

            atomic_write(kept, Path(reference.inputs).read_bytes())
        anchors = {"sequences": str(kept)}
        count = len(reference.anchors or ())
        uris += plan_shards(
            old, anchors, config, store, shards=1, keep=count, role="canary", salt=f"canary {request['window']}"
        )
        if old != ref:
            uris += plan_shards(ref, anchors, config, store, shards=1, role="new_anchors")
    if old != ref:
        uris += plan_shards(old, stays, config, store, shards=shards, least=least, role="old_window")
    return uris


def run_audit(
    model: str,
    data: str,
    window: str,
    *,
    progress: Callable[[dict[str, Any]], None] | None = None,
    processes: int = 1,
    **options: Any,
) -> Verdict:
    """All steps, with the fits in this process and in others beside it. A failure is said on the version, too.

    More than one process needs a main module that can be imported, as for any `multiprocessing` with spawn.
    """
    request: dict[str, Any] | None = None
    with Workers(processes) as workers:
        try:
            request = prepare_audit(model, data, window, **options)
            uris = plan_audit(request, least=workers.least_shards)
            workers.fit(uris, progress)
            record = report_audit(request, uris)
        except Exception as error:
            if request is not None:
                _close_failed(request["run_id"])
            with contextlib.suppress(Exception):  # the first error is the one to be heard
                tell_failure(model, window, options.get("site", DEFAULT_SITE), str(error), **_where(options))
            raise
        except BaseException:
            if request is not None:
                _close_failed(request["run_id"])
            raise
    return Verdict.from_dict({k: v for k, v in record.items() if k != "run_id"})


def tell_failure(model: str, window: str, site: str, error: str, experiment: str = EXPERIMENT) -> None:
    """Say on the version that an audit could not run, and why; gives up soon if MLflow is what does not answer."""
    span = parse_window(window)
    line = without_secrets((error.strip() or "no reason is known").splitlines()[0])
    with short_retries():
        ref = resolve_model(model)
        note_failure(
            ref.name, ref.version, experiment, site=site, window=span.label, start=span.start or "", error=line
        )


def _where(options: dict[str, Any]) -> dict[str, Any]:
    return {"experiment": options["experiment"]} if "experiment" in options else {}
