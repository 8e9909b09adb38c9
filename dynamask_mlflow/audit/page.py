"""The audit's report: the reference beside the window, the reasons, the causes, and all audits so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.evidence import Evidence
from dynamask_mlflow.audit.measured import Measured
from dynamask_mlflow.audit.publish import AuditEntry
from dynamask_mlflow.audit.verdict import Verdict
from dynamask_mlflow.report import AuditPoint, DriftData, ReportData, render_report

_DRAWN = ("moved_channels", "moved_hours")
_TESTS = {
    "p_value": "p-value of the whole test",
    "p_energy": "p-value, energy distance",
    "p_channels": "p-value, largest change of a channel",
    "p_hours": "p-value, largest change of an hour",
    "moved_channels": "share moved between channels",
    "moved_channels_upper": "its 95 % upper bound",
    "moved_hours": "share moved in time",
    "moved_hours_upper": "its 95 % upper bound ",
    "noise_channels": "noise floor: share that another seed moves between channels",
    "noise_hours": "noise floor: share that another seed moves in time",
    "ndcg": "nDCG of the channels' order",
    "inputs_moved": "channels whose inputs moved",
    "trend_p_value": "p-value of the last audits together",
    "trend_moved_channels": "share moved between channels in the last audits together",
    "trend_moved_hours": "share moved in time in the last audits together",
    "canary_moved": "canary: share moved",
    "canary_each": "canary: share moved in the median anchor",
    "trust_wins_other": "trust: stays won against another patient's mask",
    "trust_wins_mean_map": "trust: stays won against the mean map",
}


def render_audit(
    verdict: Verdict,
    evidence: Evidence,
    reference: Measured,
    current: Measured,
    history: Sequence[AuditEntry],
    config: AuditConfig,
    *,
    reference_label: str,
    created_at: str,
    task: Any = "classification",
) -> str | None:
    """The page, or None if there is no mask to show or nothing to set it against."""
    if not len(current.masks) or evidence.blockers:
        return None
    shown = [str(name) for name in current.record["shown"]]
    rows = np.flatnonzero(np.isin(current.ids, shown))
    (p0, h0, map0), (p1, h1, map1) = reference.mean_shares(), current.mean_shares()
    test = evidence.drift
    drift = DriftData(
        verdict=verdict.state,
        reasons=verdict.reasons,
        reference_label=f"reference {reference_label}",
        current_label=verdict.window,
        reference_by_channel=p0,
        current_by_channel=p1,
        reference_by_time=h0,
        current_by_time=h1,
        reference_profile=map0,
        current_profile=map1,
        moved_channels=[] if test is None else [int(i) for i in np.flatnonzero(test.channel_p <= config.locate_alpha)],
        moved_times=[] if test is None else [int(i) for i in np.flatnonzero(test.hour_p <= config.locate_alpha)],
        tests={words: verdict.metrics[name] for name, words in _TESTS.items() if name in verdict.metrics},
        causes={} if evidence.causes is None else evidence.causes.sizes(),
        history=[*(_point(entry) for entry in history if entry.window != verdict.window), _now(verdict)],
        thresholds=dict.fromkeys(_DRAWN, config.effect),
    )
    numbers = {name: current.numbers[name][rows] for name in ("area", "entropy", "ce") if name in current.numbers}
    return render_report(
        ReportData(
            title=f"Audit of {verdict.model} version {verdict.version}, {verdict.window}",
            model=f"{verdict.model} version {verdict.version}",
            created_at=created_at,
            task=task,
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
            warnings=[f"{len(current.failures)} stays could not be explained."] if current.failures else [],
            drift=drift,
        )
    )


def _point(entry: AuditEntry) -> AuditPoint:
    verdict: Any = entry.verdict
    return AuditPoint(label=entry.window, verdict=verdict, metrics=_drawn(entry.metrics))


def _now(verdict: Verdict) -> AuditPoint:
    return AuditPoint(label=verdict.window, verdict=verdict.state, metrics=_drawn(verdict.metrics))


def _drawn(metrics: Any) -> dict[str, float]:
    return {name: float(metrics[name]) for name in _DRAWN if name in metrics}
