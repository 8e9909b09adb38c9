"""The evidence of an audit: every comparison between the reference and the window, computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynamask_mlflow.audit.config import AuditConfig
from dynamask_mlflow.audit.measured import Measured
from dynamask_mlflow.audit.statistics import (
    CanaryResult,
    CauseSplit,
    DriftTest,
    InputTest,
    QualityShift,
    TrustResult,
    VersionShift,
    check_trust,
    drift_test,
    input_test,
    ndcg,
    permuted_labels,
    quality_test,
)

_QUALITY = {
    "area": "legibility",
    "entropy": "legibility",
    "ce": "faithfulness",
    "acc": "faithfulness",
    "squared_error": "faithfulness",
}
QUALITY_NAMES = {
    "area": "area of the masks",
    "entropy": "entropy of the masks",
    "ce": "cross-entropy without the masks' cells (CE)",
    "acc": "share of predictions that survive without the masks' cells (ACC)",
    "squared_error": "squared error without the masks' cells",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What a verdict is made from. `None`: not computed, for the reason that the counts or `blockers` tell.

    Attributes:
        instances: explained stays of the window whose mask looks somewhere. reference_instances: the same.
        failures: stays that could not be explained, of `sampled`; first_failure: why the first could not.
        blockers: kind -> a sentence that forbids a comparison at all (settings, channels).
        changed_anchors: stored anchors whose inputs in the data are no longer the same.
        history: p-values and effects of earlier audits against the same reference, oldest first.
    """

    channel_names: tuple[str, ...]
    times: tuple[Any, ...]
    instances: int
    reference_instances: int
    sampled: int
    failures: int
    first_failure: str = ""
    blockers: Mapping[str, str] = field(default_factory=dict)
    drift: DriftTest | None = None
    inputs: InputTest | None = None
    quality: Mapping[str, QualityShift] = field(default_factory=dict)
    ndcg: float = float("nan")
    trust: TrustResult | None = None
    canary: CanaryResult | None = None
    changed_anchors: int = 0
    versions: VersionShift | None = None
    causes: CauseSplit | None = None
    history: tuple[tuple[float, float], ...] = ()


def quality_kind(name: str) -> str:
    return _QUALITY[name]


def compare(reference: Measured, current: Measured, config: AuditConfig, **more: Any) -> Evidence:
    """Compare two windows under one model. `more`: fields of the evidence that come from elsewhere."""
    blockers = {**more.pop("blockers", {}), **channel_blocker(reference, current)}
    now, before = current.usable, reference.usable
    counts: dict[str, Any] = {
        "channel_names": current.channel_names,
        "times": current.times,
        "instances": int(now.sum()),
        "reference_instances": int(before.sum()),
        "sampled": len(current) + len(current.failures),
        "failures": len(current.failures),
        "first_failure": next(iter(current.failures.values()), ""),
        "blockers": blockers,
        "trust": trust_of(current, config),
    }
    if "channels" in blockers or min(counts["instances"], counts["reference_instances"]) < 2:
        return Evidence(**{**counts, **more})
    both = [(reference, before), (current, now)]

    def join(pick: Any) -> Any:
        return np.concatenate([pick(part)[good] for part, good in both])

    label = np.concatenate([np.zeros(int(before.sum()), dtype=bool), np.ones(int(now.sum()), dtype=bool)])
    patients = join(lambda part: part.patients)
    labels = permuted_labels(label, patients, config.permutations, config.seed)
    numbers = {
        name: join(lambda part, name=name: part.numbers[name])
        for name in _QUALITY
        if name in reference.numbers and name in current.numbers
    }
    profiles = [part.mean_shares()[0] for part in (reference, current)]
    return Evidence(
        **{
            **counts,
            "drift": drift_test(
                join(lambda part: part.by_channel), join(lambda part: part.by_time), labels, patients, config.block
            ),
            "inputs": input_test(join(lambda part: part.values), join(lambda part: part.missing), labels),
            "quality": quality_test(numbers, labels, patients),
            "ndcg": ndcg(*profiles),
            **more,
        }
    )


def channel_blocker(reference: Measured, current: Measured) -> dict[str, str]:
    """Explanations of different channels or hours cannot be compared."""
    if reference.channel_names != current.channel_names:
        other = sorted(set(reference.channel_names) ^ set(current.channel_names))
        what = f"they differ in {', '.join(other[:5])}" if other else "they stand in another order"
        return {"channels": f"The reference has other channels than the window: {what}."}
    if len(reference.times) != len(current.times):
        return {"channels": f"The reference has {len(reference.times)} steps, but the window {len(current.times)}."}
    return {}


def trust_of(current: Measured, config: AuditConfig) -> TrustResult | None:
    """Whether the window's masks are worth an audit."""
    if not len(current):
        return None
    own = current.numbers["ce" if "ce" in current.numbers else "squared_error"]
    other, mean_map = current.numbers["other"], current.numbers["mean_map"]
    return check_trust(own, other, mean_map, config.trust_alpha, config.trust_minimum)
