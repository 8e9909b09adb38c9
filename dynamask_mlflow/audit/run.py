"""One audit in steps that may run in separate processes: prepare, plan, fit each shard, report.

Every step takes and returns the records of `records`, which JSON can hold. `run_audit` does them all in one process.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynamask_mlflow._files import atomic_write
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.identity import AuditIdentity, check_site
from dynamask_mlflow.audit.models import ModelRef, resolve_model
from dynamask_mlflow.audit.records import AuditRequest, AuditSource, ShardGroup, StaySource
from dynamask_mlflow.audit.reference import (
    find_reference,
    load_reference,
    reference_record,
    settings_of,
)
from dynamask_mlflow.audit.reporting import report_audit
from dynamask_mlflow.audit.runs import DatasetInput, close_failed, describe_run, find_or_create_run, source_tags
from dynamask_mlflow.audit.shards import plan_predictions, plan_shards, writable_store
from dynamask_mlflow.audit.verdict import Verdict
from dynamask_mlflow.audit.version_state import note_failure, stored_failures
from dynamask_mlflow.audit.windows import check_attributes, dataset_channels, draw_stays, find_rows, parse_window
from dynamask_mlflow.audit.workers import Progress, Workers
from dynamask_mlflow.evaluation.privacy import stored_reason
from dynamask_mlflow.tracking.upload import short_retries


def prepare_audit(source: AuditSource, config: AuditConfig | None = None) -> AuditRequest:
    """Pin alias and reference, choose the stays, open or resume the run. Returns a request for the next steps.

    >>> config = AuditConfig(instances=100, reference_instances=100, anchors=5)
    >>> source = AuditSource(model="models:/icu-mortality@champion", data="icu", window="2026-03")
    >>> request = prepare_audit(source, config)
    >>> request.model.version, request.window, len(request.rows), dict(request.blockers)
    ('3', '2026-03', 100, {})
    """
    config, store, site = config or AuditConfig(), writable_store(source.store), check_site(source.site)
    check_attributes(source.data, config.by)
    ref, span = resolve_model(source.model), parse_window(source.window)
    population = find_rows(source.data, span, source.split)
    found = source.reference_run_id or find_reference(ref, site)
    record = reference_record(found)
    chosen = draw_stays(source.data, population, config, span.label, config.instances)
    identity = identify(ref, replace(source, window=span.label), chosen.content, config, found)
    dataset = DatasetInput(Path(source.data).name or "dataset", identity.content, source.data, len(chosen.rows))
    run_id = open_run(identity, source.experiment, store, config, dataset, ref.model_id)
    return AuditRequest(
        model=ref,
        data=source.data,
        site=site,
        window=span.label,
        split=source.split,
        rows=chosen.rows,
        predicted_rows=chosen.predicted_rows,
        content=identity.content,
        config=config,
        store=store,
        experiment=source.experiment,
        run_id=run_id,
        key=identity.key,
        population=chosen.population,
        series=identity.series,
        reference_run_id=found,
        reference_model=ModelRef.from_dict(record["model"]),
        blockers=_blockers(record, config, source.data),
    )


def identify(ref: ModelRef, source: AuditSource, content: str, config: AuditConfig, reference: str) -> AuditIdentity:
    """What an audit is of."""
    return AuditIdentity(
        model=ref.name,
        version=ref.version,
        source=ref.source,
        site=source.site,
        window=source.window,
        split=source.split,
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


def plan_audit(request: AuditRequest, shards: int | None = None, least: int = 1) -> list[str]:
    """Shards of the window and of the canary; for a new version also those that tell data and model apart.

    None at all if the reference cannot be compared with: then nothing is worth fitting. `shards`: of a window; None:
    as few as `shard_seconds` allows, but no fewer than `least`.

    >>> config = AuditConfig(instances=100, reference_instances=100, anchors=5)
    >>> source = AuditSource(model="models:/icu-mortality@champion", data="icu", window="2026-03")
    >>> uris = plan_audit(prepare_audit(source, config), shards=2)
    >>> [Path(uri).stem.partition("-")[2] for uri in uris]
    ['window', 'window', 'predicted', 'canary']
    """
    if request.blockers:
        return []
    config, store, old = request.config, request.store, request.reference_model
    window = ShardGroup(model=request.model, source=request.stays, config=config, keep=config.report_instances)
    uris = plan_shards(window, store, shards, least) + plan_predictions(request, old)
    reference = load_reference(request.reference_run_id)
    if reference.inputs is not None:
        kept = request.root / "references" / reference.run_id / "anchor_inputs.npz"
        if not kept.is_file():  # workers may not see where MLflow downloads to
            atomic_write(kept, Path(reference.inputs).read_bytes())
        anchors = replace(window, source=StaySource(sequences=str(kept)), keep=0)
        count, salt = len(reference.anchors or ()), f"canary {request.window}"
        uris += plan_shards(replace(anchors, model=old, keep=count, role="canary", salt=salt), store, 1)
        if old != request.model:
            uris += plan_shards(replace(anchors, role="new_anchors"), store, 1)
    if old != request.model:
        uris += plan_shards(replace(window, model=old, keep=0, role="old_window"), store, shards, least)
    return uris


def run_audit(
    model: str,
    data: str,
    window: str,
    *,
    config: AuditConfig | None = None,
    processes: int = 1,
    progress: Progress | None = None,
    **where: Any,
) -> Verdict:
    """All steps, with the fits in this process and in others beside it. A failure is said on the version, too.

    More than one process needs a main module that can be imported, as for any `multiprocessing` with spawn.

    Args:
        model, data, window, where: the fields of `AuditSource`: site, split, store, experiment and reference_run_id by
            keyword.
        processes: that fit. progress: called with each `ShardResult`.

    >>> config = AuditConfig(instances=100, reference_instances=100, anchors=5)
    >>> verdict = run_audit("models:/icu-mortality@champion", "icu", "2026-03", config=config)
    >>> verdict.model, verdict.window, len(verdict.reasons) > 0
    ('icu-mortality', '2026-03', True)
    """
    source = AuditSource(model=model, data=data, window=window, **where)
    request: AuditRequest | None = None
    with Workers(processes) as workers:
        try:
            request = prepare_audit(source, config)
            uris = plan_audit(request, least=workers.least_shards)
            workers.fit(uris, progress)
            return report_audit(request, uris).verdict
        except BaseException as error:
            if request is not None:
                close_failed(request.run_id)
            if isinstance(error, Exception):
                with contextlib.suppress(Exception):  # the first error is the one to be heard
                    tell_failure(source, error)
            raise


def tell_failure(source: AuditSource, error: BaseException) -> None:
    """Say on the version that an audit could not run, and why; gives up soon if MLflow is what does not answer."""
    span = parse_window(source.window)
    line = stored_reason(error)
    about = {"site": source.site, "window": span.label, "start": span.start or ""}
    with short_retries():
        ref = resolve_model(source.model)
        note_failure(ref.name, ref.version, source.experiment, **about, error=line)


def noted_failure(source: AuditSource) -> tuple[str, str]:
    """The version, and what `tell_failure` said of this window and site; empty where it said nothing."""
    from mlflow import MlflowClient

    with short_retries():
        ref = resolve_model(source.model)
        tags = MlflowClient().get_model_version(ref.name, ref.version).tags
    told = stored_failures(tags).get(source.site, {})
    return ref.version, told.get("error", "") if told.get("window") == source.window else ""
