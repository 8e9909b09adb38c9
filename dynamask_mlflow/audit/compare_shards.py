"""The shards of an audit beside the reference: window, canary, the audits before, and for a new version both models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynamask_mlflow.audit.artifacts import MEASURED
from dynamask_mlflow.audit.comparison import AuditArrays, ComparisonResult, MadeFrom, compare_arrays
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.culprit import Culprit, LookUp, find_culprits
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.history import AuditEntry
from dynamask_mlflow.audit.items import ItemRows, read_items
from dynamask_mlflow.audit.records import AuditRequest
from dynamask_mlflow.audit.reference import Reference, load_reference
from dynamask_mlflow.audit.runs import download
from dynamask_mlflow.audit.shards import gather_role, with_predictions
from dynamask_mlflow.audit.verdict import detect_violations, detect_warnings
from dynamask_mlflow.audit.windows import (
    admission_days,
    constant_channels,
    load_stays,
    parse_window,
    read_arrays,
    with_facts,
    with_outcomes,
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result and what it was made from. trend: the windows tested together, in words."""

    result: ComparisonResult
    arrays: AuditArrays
    trend: str = ""

    @property
    def reference(self) -> ExplainedWindow:
        return self.arrays.reference

    @property
    def current(self) -> ExplainedWindow:
        return self.arrays.current

    @property
    def label(self) -> str:
        """Of the reference."""
        return self.arrays.made_from.label

    @property
    def under(self) -> str:
        """The version that the tests were asked of, if it is not the audited one."""
        return self.arrays.made_from.under


def compare_shards(
    request: AuditRequest, uris: Sequence[str], config: AuditConfig, history: Sequence[AuditEntry]
) -> Comparison:
    """Join what was fitted and compare it. `history`: the current audits of the series before this window."""
    current = gather_role(uris, "window", config.report_instances)
    if current is None:
        raise AuditError("Expected shards of the window, but none was planned.")
    if not len(current):
        why = current.first_failure or "no reason is known"
        raise AuditError(f"Expected explanations of the window's stays, but all {len(current.failures)} failed: {why}")
    stored = load_reference(request.reference_run_id)
    if stored.edges is None:
        raise AuditError(
            f"Expected a reference with deciles of its inputs, but {stored.run_id} has none; build it anew."
        )
    rows = np.asarray(request.rows, dtype=np.intp)
    old_window = gather_role(uris, "old_window")
    if old_window is None:
        current = with_predictions(current, uris)
    current = with_outcomes(current, request.data, request.all_rows, config).coded(stored.edges)
    current = with_facts(current, request.data, rows, config, stored.edges)
    reference, label, compared_with = stored.measured, stored.window, stored.run_id
    if config.reference == "rolling":
        complete = [entry for entry in history if entry.verdict in ("ok", "drift")]
        if complete:
            compared_with, label = complete[-1].run_id, complete[-1].window
            reference = _measured_of(compared_with)
    under, chosen = "", []
    if old_window is not None:
        old_window = with_predictions(old_window, uris)
        old_window = with_outcomes(old_window, request.data, request.all_rows, config).coded(stored.edges)
        old_window = with_facts(old_window, request.data, rows, config, stored.edges)
        under = f"version {stored.model.version}"
    elif config.reference != "rolling":
        chosen = trend_entries(request.window, request.reference_run_id, config, history)
    beside = {
        "canary": gather_role(uris, "canary", config.anchors),
        "old_window": old_window,
        "new_anchors": gather_role(uris, "new_anchors"),
    }
    # The run keeps them all: no stay's mean inputs leave the store.
    beside = {name: None if part is None else part.coded(stored.edges) for name, part in beside.items()}
    made_from = MadeFrom(
        reference_run_id=stored.run_id,
        compared_with=compared_with,
        earlier=tuple(entry.run_id for entry in chosen),
        label=f"{label} ({under})" if under else label,
        under=under,
        population=request.population,
        changed_anchors=_changed_anchors(stored, request, config),
        constant=constant_channels(request.data, rows),
        noise=stored.noise,
        rounding=stored.rounding,
        parts=tuple(name for name, part in beside.items() if part is not None),
    )
    arrays = AuditArrays(
        made_from=made_from,
        reference=reference,
        current=current,
        anchors=stored.anchors,
        earlier=tuple(_measured_of(entry.run_id) for entry in chosen),
        **beside,
    )
    return Comparison(compare_arrays(arrays, config), arrays, trend=trend_label(chosen))


def search_culprits(found: Comparison, request: AuditRequest, config: AuditConfig) -> tuple[Culprit, ...]:
    """The slices of the stays that explain what was violated, if anything was."""
    result, reference, current = found.result, found.reference, found.arrays.asked
    violations = [*detect_violations(result, config), *detect_warnings(result, config)]
    if not violations or result.blockers:
        return ()
    days = admission_days(request.data, np.asarray(request.rows, dtype=np.intp), config)
    items = _item_lookup(request.data, reference, current, config)
    return find_culprits(result, violations, reference, current, config, days=days, items=items)


def _item_lookup(data: str, reference: ExplainedWindow, current: ExplainedWindow, config: AuditConfig) -> LookUp | None:
    """The raw events of a channel, if the settings say where they are."""
    where = config.events
    if where is None:
        return None

    def look(channel: str) -> ItemRows | None:
        from dynamask_mlflow.audit.windows import dataset_features
        from dynamask_mlflow.data import open_source

        source = open_source(config.events_source, where)
        before, now = ([str(name) for name in part.ids] for part in (reference, current))
        found = read_items(source, dataset_features(data), channel, [*before, *now])
        return found.with_use(before, now)

    return look


def trend_entries(
    window: str, reference_run_id: str, config: AuditConfig, history: Sequence[AuditEntry]
) -> list[AuditEntry]:
    """The last windows against the same reference that could be judged, without overlaps: what a trend is made of.

    A window whose attention or calibration moved on its own is left out: it was reported, and would alarm again in
    every audit after it.
    Only what the audits found in their own windows counts, so that their order does not.
    """
    limit = parse_window(window).start
    chosen: list[AuditEntry] = []
    for entry in reversed(history):
        span = parse_window(entry.window)
        sound = entry.metrics.get("invalidated") == 0 and entry.reference_run_id == reference_run_id
        if sound and not _moved(entry, config) and limit is not None and span.stop is not None and span.stop <= limit:
            chosen.append(entry)
            limit = span.start
        if len(chosen) == config.trend_window - 1:
            return chosen
    return []


def trend_label(entries: Sequence[AuditEntry]) -> str:
    """Which windows with which stays were tested together; the same for the same trend."""
    return ", ".join(f"{entry.window}:{entry.content[:12]}" for entry in entries)


def _moved(entry: AuditEntry, config: AuditConfig) -> bool:
    if entry.metrics.get("calibration_p_value", 1.0) <= config.levels["calibration"]:
        return True
    lower = max(entry.metrics.get(f"moved_{axis}_lower", 0.0) for axis in ("channels", "hours"))
    return entry.metrics.get("p_value", 1.0) <= config.levels["attention"] and lower >= config.effect


def _changed_anchors(stored: Reference, request: AuditRequest, config: AuditConfig) -> int:
    """How many anchors are in the data with other inputs than those stored."""
    if stored.inputs is None or config.hash_ids:
        return 0
    from dynamask_mlflow.evaluation.sequences import Sequences

    anchors = Sequences.load(stored.inputs)
    (ids,) = read_arrays(request.data, ("ids",), slice(None))
    place = {str(name): row for row, name in enumerate(ids)}
    here = [(i, place[name]) for i, name in enumerate(anchors.ids) if name in place]
    if not here:
        return 0
    now, _ = load_stays(request.data, np.array([row for _, row in here], dtype=np.intp))
    then = anchors.x[[i for i, _ in here]]
    return int((now.x != then).any(axis=(1, 2)).sum())


def _measured_of(run_id: str) -> ExplainedWindow:
    return ExplainedWindow.load(download(run_id, MEASURED))
