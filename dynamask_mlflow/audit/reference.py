"""The reference of a version: what its masks look like when all is well, stored once and pinned by a tag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynamask_mlflow._json import plain
from dynamask_mlflow._provenance import digest
from dynamask_mlflow.audit import tags as t
from dynamask_mlflow.audit.artifacts import ANCHOR_INPUTS, ANCHORS, REFERENCE, REFERENCE_RECORD
from dynamask_mlflow.audit.config import CIRCUMSTANCES, AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.identity import DEFAULT_SITE, check_site, site_tag
from dynamask_mlflow.audit.models import ModelRef, resolve_model
from dynamask_mlflow.audit.records import AuditSource, ReferenceRequest, ReferenceResult, ShardGroup, StaySource
from dynamask_mlflow.audit.runs import (
    DatasetInput,
    close_failed,
    close_run,
    describe_run,
    download,
    find_or_create_run,
    pin_reference,
    read_artifact_json,
    source_tags,
    upload_results,
)
from dynamask_mlflow.audit.shards import (
    gather_role,
    plan_predictions,
    plan_shards,
    read_source,
    with_predictions,
    writable_store,
)
from dynamask_mlflow.audit.statistics import noise_floor, rounding_noise
from dynamask_mlflow.audit.windows import (
    dataset_digest,
    draw_stays,
    find_rows,
    parse_window,
    with_facts,
    with_outcomes,
)
from dynamask_mlflow.audit.workers import Progress, Workers
from dynamask_mlflow.evaluation.sequences import Sequences
from dynamask_mlflow.tracking.mlflow_client import equals

# Beside the explainer's settings: what makes one reference of the same stays another one.
_MADE_WITH = (
    *("reference_instances", "predicted_instances", "anchors", "noise_seeds"),
    *("minimum", "max_failures", "hash_ids", "slices"),
)


@dataclass(frozen=True, eq=False)
class Reference:
    """A loaded reference.

    Attributes:
        run_id: the run that holds it. model: the version it belongs to. window: its label.
        measured: the stays. anchors: the stays of the canary with their masks, or None. inputs: the file of their
            inputs.
        site: where its stays come from. edges: (2 d, 9) deciles of its inputs.
        explainer_digest: of the settings with which it was fitted.
        noise: share that another seed moves between "channels" and "hours", where it was measured.
        rounding: how far an anchor's shares move when the last bit of its inputs does; None if it was not measured.
    """

    run_id: str
    model: ModelRef
    window: str
    measured: ExplainedWindow
    anchors: ExplainedWindow | None
    inputs: str | None
    explainer_digest: str
    site: str = DEFAULT_SITE
    edges: NDArray[np.float64] | None = None
    rounding: float | None = None
    noise: Mapping[str, float] = field(default_factory=dict)


def prepare_reference(source: AuditSource, config: AuditConfig | None = None) -> ReferenceRequest:
    """Pin the version, choose the stays, open the run. Returns a request for the next steps.

    >>> source = AuditSource(model="models:/icu-mortality@champion", data="icu", window="2025-06")
    >>> request = prepare_reference(source, AuditConfig(reference_instances=100))
    >>> request.kind, len(request.rows)
    ('reference', 100)
    """
    config = config or AuditConfig()
    store, data, site, split = writable_store(source.store), source.data, source.site, source.split
    check_site(site)
    ref, span = resolve_model(source.model), parse_window(source.window)
    label = f"reference {span.label} {split or ''}"
    chosen = draw_stays(data, find_rows(data, span, split), config, label, config.reference_instances)
    if len(chosen.rows) < config.minimum:
        raise AuditError(
            f"Expected at least {config.minimum} stays for a reference, but the window {span.label} has "
            f"{len(chosen.rows)}."
        )
    made_with = {name: config.to_dict()[name] for name in _MADE_WITH}
    key = digest(
        ["reference", ref.to_dict(), site, span.label, split, config.explainer_digest, made_with, chosen.content]
    )
    tags = {
        t.KIND: "reference",
        t.MODEL: ref.name,
        t.VERSION: ref.version,
        t.SITE: site,
        t.CONTENT: chosen.content,
        t.WINDOW: span.label,
        "dynamask.explainer": config.explainer_digest,
        **source_tags("dynamask-mlflow audit reference"),
    }
    name = f"reference {ref.name} v{ref.version} {site} {span.label}"
    run_id = find_or_create_run(source.experiment, key, name, tags, store)
    about = {"site": site, "window": span.label, "split": split, "stays": len(chosen.rows)}
    dataset = DatasetInput(Path(data).name or "dataset", chosen.content, data, len(chosen.rows), "reference")
    describe_run(run_id, dataset, {**about, **settings_of(config)}, ref.model_id)
    return ReferenceRequest(
        model=ref,
        data=data,
        site=site,
        window=span.label,
        split=split,
        rows=chosen.rows,
        predicted_rows=chosen.predicted_rows,
        content=chosen.content,
        config=config,
        store=store,
        experiment=source.experiment,
        run_id=run_id,
        key=key,
    )


def plan_reference(request: ReferenceRequest, shards: int | None = None, least: int = 1) -> list[str]:
    """Shards of the window, of the anchors, of the anchors under other seeds, and with their last bits flipped.

    >>> source = AuditSource(model="models:/icu-mortality@champion", data="icu", window="2025-06")
    >>> request = prepare_reference(source, AuditConfig(reference_instances=100, anchors=5))
    >>> [Path(uri).stem.partition("-")[2] for uri in plan_reference(request, shards=2)]
    ['window', 'window', 'predicted', 'anchors', 'rounding', 'noise0']
    """
    config, stays = request.config, request.stays
    window = ShardGroup(model=request.model, source=stays, config=config)
    uris = plan_shards(window, request.store, shards, least) + plan_predictions(request, request.model)
    if not config.anchors:
        return uris
    few = np.random.default_rng([config.seed, 1]).permutation(request.rows)[: config.anchors]
    sequences, _ = read_source(replace(stays, rows=tuple(sorted(int(row) for row in few))))
    inputs = StaySource(sequences=str(sequences.save(_inputs_file(request))))
    moved = _nudged(sequences, config.seed).save(_inputs_file(request, "nudged_inputs.npz"))
    anchors = replace(window, source=inputs)
    groups = [replace(anchors, role="anchors", keep=len(few))]
    groups += [replace(anchors, role="rounding", source=StaySource(sequences=str(moved)))]
    for number in range(config.noise_seeds):
        other = config.with_options(seed=config.seed + 1 + number)
        groups += [replace(anchors, role=f"noise{number}", config=other)]
    return uris + [uri for group in groups for uri in plan_shards(group, request.store, 1)]


def finish_reference(request: ReferenceRequest, uris: Sequence[str]) -> ReferenceResult:
    """Join the shards, log the reference, pin it to the version.

    >>> source = AuditSource(model="models:/icu-mortality@champion", data="icu", window="2025-06")
    >>> request = prepare_reference(source, AuditConfig(reference_instances=100, anchors=5))
    >>> uris = plan_reference(request)
    >>> Workers().fit(uris)  # or `fit_shard` of each, anywhere
    >>> finish_reference(request, uris).instances
    100
    """
    config = request.config
    measured, anchors = _sound_window(uris, config), gather_role(uris, "anchors", config.anchors)
    edges = measured.input_edges()
    measured = with_predictions(measured, uris)
    measured = with_outcomes(measured, request.data, request.all_rows, config).coded(edges)
    measured = with_facts(measured, request.data, np.asarray(request.rows, dtype=np.intp), config, edges)
    anchors = None if anchors is None else anchors.coded(edges)
    noise = _noise(uris, anchors, config)
    record = _record(request, measured, edges) | {"noise_floor": noise, "rounding": _rounding(uris, anchors)}
    root = request.root / "references" / request.key
    files: dict[str, Any] = {
        REFERENCE: measured.save(root / "reference.npz"),
        REFERENCE_RECORD: json.dumps(record, indent=1),
    }
    if anchors is not None:
        files |= {ANCHORS: anchors.save(root / "anchors.npz"), ANCHOR_INPUTS: _inputs_file(request)}
    metrics = {
        "instances": float(record["instances"]),
        **{f"noise_{name}": value for name, value in noise.items()},
        **{k: float(v) for k, v in record["numbers"].items() if v is not None},
    }
    stamp = parse_window(request.window).stop_ms
    dataset = (Path(request.data).name or "dataset", request.content)
    upload_results(request.run_id, files, metrics, timestamp=stamp, dataset=dataset)
    pin_reference(request.model, request.run_id, request.window, request.site)
    close_run(request.run_id)
    return ReferenceResult(
        model=request.model,
        site=request.site,
        window=request.window,
        instances=int(measured.usable.sum()),
        failures=len(measured.failures),
        noise_floor=noise,
        run_id=request.run_id,
    )


def _sound_window(uris: Sequence[str], config: AuditConfig) -> ExplainedWindow:
    """The explained stays, of which enough are usable; raises otherwise."""
    measured = gather_role(uris, "window")
    if measured is None or not measured.usable.any():
        why = measured.first_failure or "no reason is known" if measured else "no shard was planned"
        raise AuditError(f"Expected explanations of the reference's stays, but all of them failed: {why}.")
    failed = len(measured.failures) / (len(measured) + len(measured.failures))
    if failed > config.max_failures or int(measured.usable.sum()) < config.minimum:
        raise AuditError(
            f"Expected a sound reference, but {len(measured.failures)} stays failed and "
            f"{int(measured.usable.sum())} are left: {measured.first_failure}"
        )
    return measured


def _record(request: ReferenceRequest, measured: ExplainedWindow, edges: NDArray[np.float64]) -> dict[str, Any]:
    """What the reference is of, how it was made, and its numbers."""
    config = request.config
    by_channel, by_time, by_cell = measured.mean_shares()
    return {
        "model": request.model.to_dict(),
        "site": request.site,
        "window": request.window,
        "split": request.split,
        "content": request.content,
        # To the last digit: a rounded edge would part stays that have the same value, as those of one sex have.
        "input_edges": [[None if np.isnan(value) else float(value) for value in row] for row in edges],
        "explainer_digest": config.explainer_digest,
        "config": config.to_dict(),
        "dataset_digest": dataset_digest(request.data),
        "instances": int(measured.usable.sum()),
        "predicted": len(measured.predictions),
        "failures": len(measured.failures),
        "channels": list(measured.channel_names),
        "times": list(measured.times),
        "by_channel": plain(by_channel),
        "by_time": plain(by_time),
        "by_cell": plain(by_cell),
        "numbers": {
            name: plain(np.nanmean(values)) for name, values in measured.numbers.items() if np.isfinite(values).any()
        },
    }


def build_reference(
    model: str,
    data: str,
    window: str,
    *,
    config: AuditConfig | None = None,
    processes: int = 1,
    progress: Progress | None = None,
    **where: Any,
) -> ReferenceResult:
    """All steps, with the fits in this process and in others beside it.

    Args:
        model, data, window, where: the fields of `AuditSource`: site, split, store and experiment by keyword.
        processes: that fit.
        progress: called after each shard.

    >>> config = AuditConfig(reference_instances=100, anchors=5)
    >>> build_reference("models:/icu-mortality@champion", "icu", "2025-06", config=config).instances
    100
    """
    source = AuditSource(model=model, data=data, window=window, **where)
    with Workers(processes) as workers:
        request = prepare_reference(source, config)
        try:
            uris = plan_reference(request, least=workers.least_shards)
            workers.fit(uris, progress)
            return finish_reference(request, uris)
        except BaseException:
            close_failed(request.run_id)
            raise


def settings_of(config: AuditConfig) -> dict[str, Any]:
    """Settings as parameters of a run: those on which the result depends, so that a rerun has the same."""
    return {name: value for name, value in config.to_dict().items() if name not in CIRCUMSTANCES}


def find_reference(ref: ModelRef, site: str = DEFAULT_SITE) -> str:
    """The run id of a version's own reference at a site, else of the nearest earlier version's."""
    found = pinned_reference(ref, site) or previous_reference(ref, site)
    if found is None:
        where = "" if site == DEFAULT_SITE else f" --site {site}"
        raise AuditError(
            f"Expected a reference for {ref.name} version {ref.version} at the site {site}, but there is none; make "
            f"one with `dynamask-mlflow audit reference --model {ref.uri}{where} --data ... --window ...`."
        )
    return found


def pinned_reference(ref: ModelRef, site: str = DEFAULT_SITE) -> str | None:
    """The run id of a version's reference at a site."""
    from mlflow import MlflowClient

    tags = MlflowClient().get_model_version(ref.name, ref.version).tags
    return tags.get(site_tag(t.REFERENCE, site))


def previous_reference(ref: ModelRef, site: str = DEFAULT_SITE) -> str | None:
    """The run id of the reference, at a site, of the nearest earlier version that has one."""
    from mlflow import MlflowClient

    tag = site_tag(t.REFERENCE, site)
    versions = MlflowClient().search_model_versions(equals("name", ref.name))
    earlier = [v for v in versions if v.name == ref.name and int(v.version) < int(ref.version) and tag in v.tags]
    return max(earlier, key=lambda v: int(v.version)).tags[tag] if earlier else None


def reference_record(run_id: str) -> dict[str, Any]:
    """The reference's description alone."""
    return read_artifact_json(run_id, REFERENCE_RECORD)


def load_reference(run_id: str) -> Reference:
    """Download a reference.

    >>> run_id = pinned_reference(resolve_model("models:/icu-mortality@champion"))
    >>> load_reference(run_id).window
    '2025-06'
    """
    record = reference_record(run_id)
    anchors = inputs = None
    if AuditConfig.from_mapping(record["config"]).anchors:
        anchors = ExplainedWindow.load(download(run_id, ANCHORS))
        inputs = str(download(run_id, ANCHOR_INPUTS))
    return Reference(
        run_id=run_id,
        model=ModelRef.from_dict(record["model"]),
        window=record["window"],
        measured=ExplainedWindow.load(download(run_id, REFERENCE)),
        anchors=anchors,
        inputs=inputs,
        explainer_digest=record["explainer_digest"],
        site=record.get("site", DEFAULT_SITE),
        edges=np.array(record["input_edges"], dtype=np.float64) if "input_edges" in record else None,
        rounding=record.get("rounding"),
        noise={
            axis: floor[f"{name}_moved"]
            for axis, name in (("channels", "by_channel"), ("hours", "by_time"))
            if f"{name}_moved" in (floor := record.get("noise_floor") or {})
        },
    )


def _noise(uris: Sequence[str], anchors: ExplainedWindow | None, config: AuditConfig) -> dict[str, float]:
    others = [gather_role(uris, f"noise{number}") for number in range(config.noise_seeds)]
    fits = [part for part in (anchors, *others) if part is not None]
    if len(fits) < 2 or len({len(part) for part in fits}) > 1:
        return {}
    found: dict[str, float] = {}
    for axis in ("by_channel", "by_time"):
        floor = noise_floor([getattr(part, axis) for part in fits])
        found |= {f"{axis}_{name}": value for name, value in floor.items()}
    return found


def _rounding(uris: Sequence[str], anchors: ExplainedWindow | None) -> float | None:
    nudged = gather_role(uris, "rounding")
    if anchors is None or nudged is None or len(anchors) != len(nudged):
        return None
    return rounding_noise(anchors.shares, nudged.shares)


def _nudged(sequences: Sequences, seed: int) -> Sequences:
    """The same to all but the last bit, which is what another processor or library may change."""
    up = np.random.default_rng([seed, 2]).random(sequences.x.shape) < 0.5
    limits = np.where(up, np.float32(np.inf), np.float32(-np.inf))
    return replace(sequences, x=np.nextafter(sequences.x, limits).astype(np.float32))


def _inputs_file(request: ReferenceRequest, name: str = "anchor_inputs.npz") -> Path:
    return request.root / "references" / request.key / name
