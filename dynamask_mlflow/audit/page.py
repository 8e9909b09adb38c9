"""The audit's report: the reference beside the window, the reasons, the causes, and all audits so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynamask_mlflow.audit.compare_shards import Comparison
from dynamask_mlflow.audit.comparison import ComparisonResult
from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.history import AuditEntry
from dynamask_mlflow.audit.identity import DEFAULT_SITE
from dynamask_mlflow.audit.statistics import DriftTest, Floats
from dynamask_mlflow.audit.verdict import Verdict, call, group_rows
from dynamask_mlflow.report import AuditPoint, DriftData, ReportData, render_report

# What is drawn over time: metric -> title of the panel.
_DRAWN = {
    "proven_channels": "Attention moved between channels, at least (share of the total)",
    "proven_hours": "Attention moved in time, at least (share of the total)",
    "predicted": "Mean predicted risk or value",
}
TESTS = {
    "p_value": "Attention: p-value of the whole test",
    "moved_channels": "Attention moved between channels (share of the total)",
    "moved_channels_lower": "at least (95 % lower bound, channels)",
    "moved_channels_upper": "at most (95 % upper bound, channels)",
    "moved_hours": "Attention moved in time (share of the total)",
    "moved_hours_lower": "at least (95 % lower bound, time)",
    "moved_hours_upper": "at most (95 % upper bound, time)",
    "p_energy": "p-value of the energy distance",
    "p_channels": "p-value of the largest change of a channel",
    "p_hours": "p-value of the largest change of an hour",
    "tolerance": "Attention: a move below this share is ok",
    "noise_channels": "Noise floor: share that another seed moves between channels",
    "noise_hours": "Noise floor: share that another seed moves in time",
    "ndcg": "nDCG of the channels' order",
    "predicted_reference": "Mean prediction in the reference window",
    "predicted": "Mean prediction in this window",
    "predicted_low": "lower end of its change (95 %)",
    "predicted_high": "upper end of its change (95 %)",
    "predictions_p_value": "Predictions: smallest p-value, adjusted",
    "auroc_reference": "AUROC in the reference window",
    "auroc": "AUROC in this window",
    "brier_reference": "Brier score in the reference window",
    "brier": "Brier score in this window",
    "calibration_reference": "Observed minus predicted in the reference window",
    "calibration": "Observed minus predicted in this window",
    "predicted_stays": "Stays of this window with a prediction",
    "labelled": "Stays of this window with a known outcome",
    "calibration_trend": "Observed minus predicted in the last windows together",
    "calibration_trend_p_value": "p-value of that, against the reference",
    "inputs_moved": "Channels whose inputs moved",
    "trend_p_value": "p-value of the last windows together",
    "trend_moved_channels": "Attention moved between channels in the last windows together",
    "trend_moved_hours": "Attention moved in time in the last windows together",
    "canary_moved": "Canary: share moved",
    "canary_each": "Canary: share moved in the median anchor",
    "trust_wins_other": "Trust: stays won against another stay's mask",
    "trust_wins_mean_map": "Trust: stays won against the mean map",
    "instances": "Stays explained",
    "left_out": "Stays left out",
}
# Numbers of masks shown for each stay; a model of values has the squared error in place of CE and ACC.
_BY_STAY = ("area", "entropy", "ce", "acc", "squared_error")


def render_audit(
    verdict: Verdict,
    found: Comparison,
    history: Sequence[AuditEntry],
    config: AuditConfig,
    *,
    created_at: str,
) -> str | None:
    """The page, or None if there is no mask to show or nothing to set it against."""
    result, reference, current = found.result, found.reference, found.current
    if not len(current.masks) or result.blockers:
        return None
    shown = [str(name) for name in current.record["shown"]]
    rows = np.flatnonzero(np.isin(current.ids, shown))
    (p0, h0, map0), (p1, h1, map1) = reference.mean_shares(), current.mean_shares()
    proven = _proven(found, verdict, config)
    numbers_told = {**_tests(verdict, found.under), **_groups(result)}
    failed = f"{len(current.failures)} stays could not be explained."
    drift = DriftData(
        verdict=verdict.state,
        told=verdict.sections,
        reference_label=f"reference {found.label}",
        current_label=verdict.window if not found.under else f"{verdict.window} (version {verdict.version})",
        reference_by_channel=p0,
        current_by_channel=p1,
        reference_by_time=h0,
        current_by_time=h1,
        reference_profile=map0,
        current_profile=map1,
        moved_channels=_beyond(None if proven is None else proven.channel_p, config),
        moved_times=_beyond(None if proven is None else proven.hour_p, config),
        explained=len(current),
        tests={call(k, config.sequence_name): v for k, v in numbers_told.items()},
        causes={} if result.causes is None else result.causes.sizes(),
        history=[*(_point(entry) for entry in history if entry.window != verdict.window), _now(verdict)],
        thresholds={_DRAWN[name]: config.effect for name in ("proven_channels", "proven_hours")},
    )
    numbers = {name: current.numbers[name][rows] for name in _BY_STAY if name in current.numbers}
    return render_report(
        ReportData(
            title=f"Audit of {verdict.model} version {verdict.version}, {_place(verdict)}{verdict.window}",
            model=f"{verdict.model} version {verdict.version}",
            created_at=created_at,
            task=current.record.get("config", {}).get("task", "classification"),
            ids=shown,
            channel_names=list(current.channel_names),
            times=list(current.times),
            time_unit=config.time_unit,
            masks=current.masks,
            metrics=numbers,
            profile_by_channel=p1,
            profile_by_time=h1,
            profile=map1,
            method=config.method,
            settings={k: v for k, v in config.to_dict().items() if v is not None},
            warnings=[call(failed, config.sequence_name)] if current.failures else [],
            drift=drift,
        )
    )


def _place(verdict: Verdict) -> str:
    return "" if verdict.site == DEFAULT_SITE else f"{verdict.site}, "


def _tests(verdict: Verdict, under: str) -> dict[str, float | str]:
    """The numbers in words. With a new version the tests ask the old one: what moved is the data, not the model."""
    lead = f"Asked of {under}, data alone. " if under else ""
    return {lead + words: verdict.metrics[name] for name, words in TESTS.items() if name in verdict.metrics}


def _groups(result: ComparisonResult) -> dict[str, str]:
    """The subgroups: reference to this window, with 95 % intervals of the change."""
    rows = [] if result.groups is None else group_rows(result.groups)
    return {f"{row['group']}: {name}": str(cell) for row in rows for name, cell in row.items() if name != "group"}


def _proven(found: Comparison, verdict: Verdict, config: AuditConfig) -> DriftTest | None:
    """The test that proves a move of this version's attention; what the verdict does not prove is not marked."""
    result = found.result
    if found.under:
        return None
    if result.drift is not None and result.drift.p_value <= config.levels["attention"]:
        return result.drift
    return result.trend if any(violation.kind == "trend" for violation in verdict.violations) else None


def _beyond(p: Floats | None, config: AuditConfig) -> list[int]:
    return [] if p is None else [int(i) for i in np.flatnonzero(p <= config.locate_alpha)]


def _point(entry: AuditEntry) -> AuditPoint:
    return AuditPoint(label=entry.window, verdict=entry.verdict, metrics=_drawn(entry.metrics))


def _now(verdict: Verdict) -> AuditPoint:
    return AuditPoint(label=verdict.window, verdict=verdict.state, metrics=_drawn(verdict.metrics))


def _drawn(metrics: Any) -> dict[str, float]:
    return {title: float(metrics[name]) for name, title in _DRAWN.items() if name in metrics}
